//! Masking of the values of Secrets where changes are shown, as `kubectl diff` masks them.

use kubernetes::kinds::is_secret;
use model::{FieldChange, Kind};

use super::noise::is_below;

/// Fields of a Secret that are not secret. Annotations may be: some contain a copy of the object.
const PUBLIC_FIELDS: [&str; 9] = [
    "apiVersion",
    "kind",
    "type",
    "immutable",
    "metadata.name",
    "metadata.namespace",
    "metadata.labels",
    "metadata.resourceVersion",
    "metadata.creationTimestamp",
];

/// Masks the values of a Secret's fields; other kinds are left as they are.
pub(super) fn mask(kind: &Kind, fields: &mut [FieldChange]) {
    if !is_secret(kind) {
        return;
    }
    for field in fields
        .iter_mut()
        .filter(|field| !PUBLIC_FIELDS.iter().any(|public_field| is_below(&field.path, public_field)))
    {
        let is_changed = field.before.is_some() && field.after.is_some();
        let masked = |when: &str| match is_changed {
            true => format!("*** ({when})").into(),
            false => "***".into(),
        };
        field.before = field.before.as_ref().map(|_| masked("before"));
        field.after = field.after.as_ref().map(|_| masked("after"));
    }
}

#[cfg(test)]
mod tests {
    use model::{Object, changed_fields};

    use super::*;

    #[test]
    fn only_public_fields_of_secrets_are_shown() {
        let object = |kind: &str, labels: &str, password: &str| {
            Object::parse(&format!(
                r#"{{"apiVersion":"v1","kind":"{kind}","metadata":{{"name":"s","labels":{{"a":"{labels}"}},"annotations":{{"copy":"{password}"}}}},"data":{{"p":"{password}"}}}}"#
            ))
            .unwrap()
        };
        let shown = |kind: &str| {
            let (before, after) = (object(kind, "1", "old"), object(kind, "2", "new"));
            let mut fields = changed_fields(Some(&before), Some(&after)).unwrap();
            mask(&Kind::new("", kind), &mut fields);
            let text = |value: Option<serde_json::Value>| value.unwrap().as_str().unwrap().to_owned();
            let line = |field: FieldChange| {
                format!("{}: {} → {}", field.path, text(field.before), text(field.after))
            };
            fields.into_iter().map(line).collect::<Vec<_>>()
        };
        assert_eq!(
            shown("ConfigMap"),
            ["data.p: old → new", "metadata.annotations.copy: old → new", "metadata.labels.a: 1 → 2"]
        );
        assert_eq!(
            shown("Secret"),
            [
                "data.p: *** (before) → *** (after)",
                "metadata.annotations.copy: *** (before) → *** (after)",
                "metadata.labels.a: 1 → 2",
            ]
        );
    }
}
