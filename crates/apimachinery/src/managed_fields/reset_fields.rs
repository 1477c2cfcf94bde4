//! The fields that a request cannot change because a strategy resets them: nobody owns them by it.

use model::Kind;

use super::field_set::FieldSet;

/// Fields that are reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResetFields {
    /// These, and everything in them.
    Of(&'static [&'static [&'static str]]),
    /// All but these; `*` is any list entry.
    AllBut(&'static [&'static [&'static str]]),
}

const NONE: ResetFields = ResetFields::Of(&[]);
const STATUS: ResetFields = ResetFields::Of(&[&["status"]]);
const SPEC: ResetFields = ResetFields::Of(&[&["spec"]]);
const METADATA_AND_SPEC: ResetFields = ResetFields::Of(&[&["metadata"], &["spec"]]);

// === impl ResetFields ===

impl ResetFields {
    /// Those of a write of an object, or of one of its subresources.
    pub(super) fn of(kind: &Kind, subresource: &str, has_status: bool) -> ResetFields {
        match (subresource, &*kind.group, &*kind.kind) {
            ("", "certificates.k8s.io", "PodCertificateRequest") => NONE,
            ("", "certificates.k8s.io", "CertificateSigningRequest") => {
                ResetFields::Of(&[&["spec"], &["status"]])
            }
            ("", ..) if has_status => STATUS,
            ("status", "", "Pod") => ResetFields::Of(&[
                &["spec"],
                &["metadata", "deletionTimestamp"],
                &["metadata", "ownerReferences"],
            ]),
            ("status", "apps", "Deployment") => ResetFields::Of(&[&["spec"], &["metadata", "labels"]]),
            ("status", "certificates.k8s.io", "CertificateSigningRequest") => {
                ResetFields::Of(&[&["spec"], &["status", "conditions"]])
            }
            ("status", "certificates.k8s.io" | "apiextensions.k8s.io", _) => SPEC,
            ("status", "" | "apps" | "batch" | "autoscaling" | "policy", _) => SPEC,
            ("status", "networking.k8s.io", "Ingress") => SPEC,
            // Of custom resources too.
            ("status", ..) => METADATA_AND_SPEC,
            ("finalize", "", "Namespace") => STATUS,
            ("ephemeralcontainers", ..) => ResetFields::AllBut(&[&["spec", "ephemeralContainers"]]),
            ("resize", ..) => ResetFields::AllBut(&[
                &["spec", "containers", "*", "resources"],
                &["spec", "containers", "*", "resizePolicy"],
                &["spec", "initContainers", "*", "resources"],
                &["spec", "initContainers", "*", "resizePolicy"],
            ]),
            _ => NONE,
        }
    }

    /// The paths of a set that are not reset.
    pub(super) fn filter(self, set: FieldSet) -> FieldSet {
        match self {
            _ if set.is_empty() => set,
            ResetFields::Of(paths) => {
                let mut reset = FieldSet::default();
                for path in paths {
                    reset.insert(path);
                }
                set.recursive_difference(&reset)
            }
            ResetFields::AllBut(patterns) => set.matching(patterns),
        }
    }
}
