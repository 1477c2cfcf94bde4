//! Expressions as texts: their parser, the macros of Kubernetes' libraries, and what is wrong with them.

use std::fmt::Write;
use std::sync::LazyLock;

use ::cel::Env;
use ::cel::common::ast::{
    CallExpr, ComprehensionExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, SelectExpr, SourceInfo,
    operators,
};
use ::cel::parser::{Macro, MacroExprHelper, ParseError};

/// What is wrong with an expression, and where.
#[derive(Debug)]
pub(super) struct Issue {
    /// From 1.
    line: usize,
    /// From 0.
    column: usize,
    message: String,
}

/// A parsed expression.
pub(super) struct Parsed {
    pub(super) root: IdedExpr,
    info: SourceInfo,
}

/// The name of the variable in which macros gather their results.
const RESULT: &str = "@result";
/// The name of the variable of a loop that is not run.
const UNUSED: &str = "#unused";
const SORT_INPUT: &str = "@__sortBy_input__";
/// How deep brackets may be nested, as in Kubernetes.
const MAX_NESTING: u16 = 250;
const MAX_ISSUES: usize = 100;

/// Parses with the macros of cel-go 0.26; those of the crate are of a later one.
static ENVIRONMENT: LazyLock<Env> = LazyLock::new(|| {
    let mut env = Env::default().with_optional_support(true);
    let has =
        Macro::global(operators::HAS, 1, |helper, _, arguments| expand_has(helper, arguments).map(Some));
    env.add_macro(has).expect("it is the first macro");
    let receivers: [(&'static str, &[usize], Expander); 9] = [
        ("all", &[2, 3], expand_loop),
        ("exists", &[2, 3], expand_loop),
        ("exists_one", &[2, 3], expand_loop),
        ("existsOne", &[3], expand_loop),
        ("map", &[2, 3], expand_loop),
        ("filter", &[2], expand_loop),
        ("optMap", &[2], expand_optional_map),
        ("optFlatMap", &[2], expand_optional_map),
        ("sortBy", &[2], expand_sort_by),
    ];
    let transformations = ["transformList", "transformMap", "transformMapEntry"];
    let transformations =
        transformations.map(|name| (name, &[3_usize, 4] as &[usize], expand_loop as Expander));
    for (name, counts, expand) in receivers.into_iter().chain(transformations) {
        for count in counts {
            let added = Macro::receiver(name, *count, move |helper, target, arguments| {
                let target = target.take().unwrap_or_default();
                expand(name, helper, target, std::mem::take(arguments)).map(Some)
            });
            env.add_macro(added).expect("the names and argument counts of macros differ");
        }
    }
    env
});

/// Rewrites a call of a macro on a target.
type Expander = fn(&str, &mut MacroExprHelper<'_>, IdedExpr, Vec<IdedExpr>) -> Result<IdedExpr, ParseError>;

// === impl Issue ===

impl Issue {
    /// The issues of an expression as cel-go prints them.
    pub(super) fn print_all(mut issues: Vec<Issue>, text: &str) -> String {
        issues.sort_by_key(|issue| (issue.line, issue.column));
        let mut printed = String::new();
        for (index, issue) in issues.iter().take(MAX_ISSUES).enumerate() {
            if index > 0 {
                printed.push('\n');
            }
            let Issue { line, column, message } = issue;
            _ = write!(printed, "ERROR: <input>:{line}:{}: {message}", column + 1);
            if let Some(source) = text.split('\n').nth(line.saturating_sub(1)) {
                let source = source.replace('\t', " ");
                _ = write!(printed, "\n | {source}\n | ");
                let mut letters = source.chars();
                let wide = |letter: &char| letter.len_utf8() > 1;
                for letter in letters.by_ref().take(*column) {
                    printed.push(if wide(&letter) { '\u{ff0e}' } else { '.' });
                }
                printed.push(if letters.next().as_ref().is_some_and(wide) { '\u{ff3e}' } else { '^' });
            }
        }
        if issues.len() > MAX_ISSUES {
            _ = write!(printed, "\n{} more errors were truncated", issues.len() - MAX_ISSUES);
        }
        printed
    }
}

// === impl Parsed ===

impl Parsed {
    /// Parses an expression, on a stack that suffices for its nesting.
    pub(super) fn parse(text: &str) -> Result<Parsed, Vec<Issue>> {
        let parser = ENVIRONMENT.parser().max_recursion_depth(MAX_NESTING);
        match parser.parse_with_source_info(text) {
            Ok((root, info)) => Ok(Parsed { root, info }),
            Err(errors) => {
                let issue = |error: ParseError| Issue {
                    line: usize::try_from(error.pos.0).unwrap_or(1).max(1),
                    column: usize::try_from(error.pos.1 - 1).unwrap_or(0),
                    message: error.msg,
                };
                // What the parser says about parts that it could not read follows from what is wrong with them.
                let is_own = |error: &ParseError| {
                    !error.msg.starts_with("Incomplete ") && !error.msg.starts_with("No `")
                };
                let has_own = errors.errors.iter().any(is_own);
                Err(errors.errors.into_iter().filter(|error| is_own(error) || !has_own).map(issue).collect())
            }
        }
    }

    /// An issue with a part of the expression.
    pub(super) fn issue(&self, id: u64, message: String) -> Issue {
        let start = self.info.offset_for(id).map_or(0, |(start, _)| start as usize);
        let before: Vec<char> = self.info.source.chars().take(start).collect();
        let line_start = before.iter().rposition(|letter| *letter == '\n').map_or(0, |at| at + 1);
        let line = 1 + before.iter().filter(|letter| **letter == '\n').count();
        Issue { line, column: start - line_start.min(start), message }
    }
}

/// `has(a.b)`
fn expand_has(
    helper: &mut MacroExprHelper<'_>,
    arguments: &mut Vec<IdedExpr>,
) -> Result<IdedExpr, ParseError> {
    let argument = arguments.pop().unwrap_or_default();
    match argument.expr {
        Expr::Select(select) => Ok(helper.next_expr(Expr::Select(SelectExpr { test: true, ..select }))),
        _ => Err(helper.new_error(argument.id, "invalid argument to has() macro")),
    }
}

/// The macros that are loops. One variable is an item of a list or a key of a map; two are index and item, or key and
/// value.
fn expand_loop(
    name: &str,
    helper: &mut MacroExprHelper<'_>,
    target: IdedExpr,
    mut arguments: Vec<IdedExpr>,
) -> Result<IdedExpr, ParseError> {
    let has_two_variables = match name {
        "map" => false,
        "transformList" | "transformMap" | "transformMapEntry" => true,
        _ => arguments.len() == 3,
    };
    let first = loop_variable(helper, &arguments[0])?;
    let second = match has_two_variables {
        true => Some(loop_variable(helper, &arguments[1])?),
        false => None,
    };
    if second.as_ref() == Some(&first) {
        let message = format!("duplicate variable name: {first}");
        return Err(helper.new_error(arguments[1].id, message));
    }
    let mut rest = arguments.split_off(if has_two_variables { 2 } else { 1 });
    let last = rest.pop().unwrap_or_default();
    let filter = rest.pop();
    let (init, condition, step, result) = match name {
        "all" => {
            let accumulated = ident(helper, RESULT);
            let condition = call(helper, operators::NOT_STRICTLY_FALSE, vec![accumulated]);
            let accumulated = ident(helper, RESULT);
            let step = call(helper, operators::LOGICAL_AND, vec![accumulated, last]);
            (boolean(helper, true), condition, step, ident(helper, RESULT))
        }
        "exists" => {
            let accumulated = ident(helper, RESULT);
            let negated = call(helper, operators::LOGICAL_NOT, vec![accumulated]);
            let condition = call(helper, operators::NOT_STRICTLY_FALSE, vec![negated]);
            let accumulated = ident(helper, RESULT);
            let step = call(helper, operators::LOGICAL_OR, vec![accumulated, last]);
            (boolean(helper, false), condition, step, ident(helper, RESULT))
        }
        "existsOne" | "exists_one" => {
            let (accumulated, one) = (ident(helper, RESULT), integer(helper, 1));
            let more = call(helper, operators::ADD, vec![accumulated, one]);
            let accumulated = ident(helper, RESULT);
            let step = call(helper, operators::CONDITIONAL, vec![last, more, accumulated]);
            let (accumulated, one) = (ident(helper, RESULT), integer(helper, 1));
            let result = call(helper, operators::EQUALS, vec![accumulated, one]);
            (integer(helper, 0), boolean(helper, true), step, result)
        }
        "filter" => {
            let item = ident(helper, &first);
            let step = add_item(helper, item, Some(last));
            (empty_list(helper), boolean(helper, true), step, ident(helper, RESULT))
        }
        "map" | "transformList" => {
            let step = add_item(helper, last, filter);
            (empty_list(helper), boolean(helper, true), step, ident(helper, RESULT))
        }
        _ => {
            let mut inserted = vec![ident(helper, RESULT)];
            if name == "transformMap" {
                inserted.push(ident(helper, &first));
            }
            inserted.push(last);
            let step = call(helper, "cel.@mapInsert", inserted);
            let step = only_if(helper, filter, step);
            let init = helper.next_expr(Expr::Map(MapExpr::default()));
            (init, boolean(helper, true), step, ident(helper, RESULT))
        }
    };
    Ok(helper.next_expr(Expr::Comprehension(Box::new(ComprehensionExpr {
        iter_range: target,
        iter_var: first,
        iter_var2: second,
        accu_var: RESULT.to_owned(),
        accu_init: init,
        loop_cond: condition,
        loop_step: step,
        result,
    }))))
}

fn loop_variable(helper: &MacroExprHelper<'_>, argument: &IdedExpr) -> Result<String, ParseError> {
    match simple_name(argument) {
        Some(name) if name == RESULT => {
            Err(helper.new_error(argument.id, "iteration variable overwrites accumulator variable"))
        }
        Some(name) => Ok(name),
        None => Err(helper.new_error(argument.id, "argument must be a simple name")),
    }
}

/// The step that adds an item to a list, if a filter allows it.
fn add_item(helper: &mut MacroExprHelper<'_>, item: IdedExpr, filter: Option<IdedExpr>) -> IdedExpr {
    let accumulated = ident(helper, RESULT);
    let item = helper.next_expr(Expr::List(ListExpr::new(vec![item])));
    let step = call(helper, operators::ADD, vec![accumulated, item]);
    only_if(helper, filter, step)
}

fn only_if(helper: &mut MacroExprHelper<'_>, filter: Option<IdedExpr>, step: IdedExpr) -> IdedExpr {
    let Some(filter) = filter else { return step };
    let accumulated = ident(helper, RESULT);
    call(helper, operators::CONDITIONAL, vec![filter, step, accumulated])
}

/// `x.optMap(v, e)`: `e` about the value of `x`, if it has one.
fn expand_optional_map(
    name: &str,
    helper: &mut MacroExprHelper<'_>,
    target: IdedExpr,
    mut arguments: Vec<IdedExpr>,
) -> Result<IdedExpr, ParseError> {
    let Some(variable) = simple_name(&arguments[0]) else {
        let message = format!("{name}() variable name must be a simple identifier");
        return Err(helper.new_error(arguments[0].id, message));
    };
    let mapped = arguments.pop().unwrap_or_default();
    let has_value = member_call(helper, "hasValue", target.clone(), Vec::new());
    let value = member_call(helper, "value", target, Vec::new());
    let mapped = bind(helper, &variable, value, mapped);
    let mapped = if name == "optMap" { call(helper, "optional.of", vec![mapped]) } else { mapped };
    let none = call(helper, "optional.none", Vec::new());
    Ok(call(helper, operators::CONDITIONAL, vec![has_value, mapped, none]))
}

/// `x.sortBy(v, e)`: the items of `x` in the order of `e` about each.
fn expand_sort_by(
    _: &str,
    helper: &mut MacroExprHelper<'_>,
    target: IdedExpr,
    arguments: Vec<IdedExpr>,
) -> Result<IdedExpr, ParseError> {
    if !matches!(
        target.expr,
        Expr::List(_) | Expr::Select(_) | Expr::Ident(_) | Expr::Comprehension(_) | Expr::Call(_)
    ) {
        let message =
            "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
        return Err(helper.new_error(target.id, message));
    }
    let input = ident(helper, SORT_INPUT);
    let keys = expand_loop("map", helper, input, arguments)?;
    let input = ident(helper, SORT_INPUT);
    let sorted = member_call(helper, "@sortByAssociatedKeys", input, vec![keys]);
    Ok(bind(helper, SORT_INPUT, target, sorted))
}

/// An expression about a variable with a value: a loop that is not run.
fn bind(helper: &mut MacroExprHelper<'_>, variable: &str, value: IdedExpr, about: IdedExpr) -> IdedExpr {
    let bound = ComprehensionExpr {
        iter_range: empty_list(helper),
        iter_var: UNUSED.to_owned(),
        iter_var2: None,
        accu_var: variable.to_owned(),
        accu_init: value,
        loop_cond: boolean(helper, false),
        loop_step: ident(helper, variable),
        result: about,
    };
    helper.next_expr(Expr::Comprehension(Box::new(bound)))
}

fn simple_name(expression: &IdedExpr) -> Option<String> {
    match &expression.expr {
        Expr::Ident(name) => Some(name.clone()),
        _ => None,
    }
}

fn ident(helper: &mut MacroExprHelper<'_>, name: &str) -> IdedExpr {
    helper.next_expr(Expr::Ident(name.to_owned()))
}

fn empty_list(helper: &mut MacroExprHelper<'_>) -> IdedExpr {
    helper.next_expr(Expr::List(ListExpr::new(Vec::new())))
}

fn boolean(helper: &mut MacroExprHelper<'_>, value: bool) -> IdedExpr {
    helper.next_expr(Expr::Literal(LiteralValue::Boolean(value.into())))
}

fn integer(helper: &mut MacroExprHelper<'_>, value: i64) -> IdedExpr {
    helper.next_expr(Expr::Literal(LiteralValue::Int(value.into())))
}

fn call(helper: &mut MacroExprHelper<'_>, name: &str, args: Vec<IdedExpr>) -> IdedExpr {
    helper.next_expr(Expr::Call(CallExpr { func_name: name.to_owned(), target: None, args }))
}

fn member_call(
    helper: &mut MacroExprHelper<'_>,
    name: &str,
    target: IdedExpr,
    args: Vec<IdedExpr>,
) -> IdedExpr {
    let target = Some(Box::new(target));
    helper.next_expr(Expr::Call(CallExpr { func_name: name.to_owned(), target, args }))
}
