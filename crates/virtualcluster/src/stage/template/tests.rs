use serde_json::json;

use super::*;

/// Functions that return their names.
struct NamedFunctions;

impl ClusterFunctions for NamedFunctions {
    fn call(&self, function: ClusterFunction, arguments: &[TemplateValue<'_>]) -> TemplateValue<'static> {
        let arguments: Vec<String> =
            arguments.iter().map(|argument| argument.to_json().to_string()).collect();
        TemplateValue::owned(format!("{function:?}({})", arguments.join(",")))
    }
}

#[track_caller]
fn check(template: &str, object: Value, expected: &str) {
    let rendered = Template::parse(template).and_then(|template| template.render(&object, &NamedFunctions));
    assert_eq!(rendered.as_deref(), Ok(expected), "{template}");
}

#[track_caller]
fn check_refused(template: &str, expected: &str) {
    let rendered =
        Template::parse(template).and_then(|template| template.render(&json!({}), &NamedFunctions));
    let error = rendered.unwrap_err().to_string();
    assert!(error.contains(expected), "{template}: {error}");
}

#[test]
fn fields_variables_and_pipes() {
    check("a {{ .a.b }} {{ .x.y }}", json!({"a": {"b": "c"}}), "a c <no value>");
    check("{{ $a := .a }}{{ $a.b | Quote }} {{ $.n }}", json!({"a": {"b": "c\"d"}, "n": 7}), "\"c\\\"d\" 7");
    check("{{ .n | Quote }} {{ .x | Quote }}", json!({"n": 7}), "\"7\" \"null\"");
    check("{{ printf \"kwok-%s\" Version }}", json!({}), "kwok-Version()");
    check(
        "{{ PodIPWith .n ( or .h false ) ( or .u \"\" ) \"a\" `b` | Quote }}",
        json!({"n": "x"}),
        r#""PodIpWith(\"x\",false,\"\",\"a\",\"b\")""#,
    );
    check("{{ (index .l 0).a }}", json!({"l": [{"a": "b"}]}), "b");
}

#[test]
fn conditions_follow_gos_truth() {
    let template = "{{ if .a }}yes{{ else if eq .b \"x\" }}b{{ else }}no{{ end }}";
    check(template, json!({"a": [1]}), "yes");
    check(template, json!({"a": {}, "b": "x"}), "b");
    check(template, json!({"a": "", "b": "y"}), "no");
    // Numbers of objects are texts to Go.
    check(template, json!({"a": 0}), "yes");
    check("{{ if eq .none \"x\" }}yes{{ else }}no{{ end }}", json!({}), "no");
    check("{{ if or ( not .a ) ( eq .a \"x\" ) }}yes{{ end }}", json!({"a": "x"}), "yes");
    check("{{ with .a }}{{ . }}{{ else }}none{{ end }}", json!({"a": "x"}), "x");
    check("{{ with .a }}{{ . }}{{ else }}none{{ end }}", json!({}), "none");
}

#[test]
fn loops_have_variables_of_their_own() {
    let object = json!({"l": [{"n": "a"}, {"n": "b"}], "s": {"l": ["x", "y"]}});
    check("[{{ range .l }} {{ .n }} {{ end }}]", object.clone(), "[ a  b ]");
    check(
        "{{ $root := . }}{{ range $i, $x := .l }}{{ $i }}{{ $x.n }}{{ index $root.s.l $i }} {{ end }}",
        object.clone(),
        "0ax 1by ",
    );
    check(
        "{{ $found := false }}{{ range .l }}{{ if eq .n \"b\" }}{{ $found = true }}{{ end }}{{ end }}{{ $found }}",
        object,
        "true",
    );
    check("{{ range .none }}x{{ else }}empty{{ end }}", json!({}), "empty");
    check(
        "{{ range $k, $v := .m }}{{ $k }}={{ $v }} {{ end }}",
        json!({"m": {"b": "2", "a": "1"}}),
        "a=1 b=2 ",
    );
}

#[test]
fn yaml_is_indented_as_kwok_does() {
    check(
        "a:\n{{ YAML .m 1 }}\nb: 1",
        json!({"m": {"x": "1k", "z": "2"}}),
        "a:\n\n  x: 1k\n  z: \"2\"\n  \nb: 1",
    );
}

#[test]
fn space_is_trimmed_on_request_and_comments_are_dropped() {
    check("a  {{- .x -}}  b{{/* }} */}}c", json!({"x": "-"}), "a-bc");
}

#[test]
fn everything_else_is_refused_by_name() {
    check_refused("{{ upper .a }}", "function \"upper\" is not supported: expected one of or, not");
    check_refused("{{ template \"x\" }}", "{{ template }} is not supported");
    check_refused("{{ if .a }}", "without {{ end }}");
    check_refused("{{ end }}", "unexpected {{ end }}");
    check_refused("{{ .a", "not closed");
    check_refused("{{ printf \"%q\" .a }}", "%q is not supported");
    check_refused("{{ index .l 3 }}", "cannot index nothing");
    check_refused("{{ $x }}", "undefined variable $x");
    check_refused("{{ eq 1 \"a\" }}", "cannot compare a number with a text");
    check_refused("{{ range .a | }}{{ end }}", "without a value");
}
