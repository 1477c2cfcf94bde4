//! Functions of lists: Kubernetes' own, CEL's extension, and lists as sets.

use std::cmp::Ordering;

use super::super::value::{Failure, List, Outcome, Value};
use super::costs::{LIST_COST, Meter};
use super::{Row, operators};

pub(super) const ROWS: &[Row] = &[
    Row { name: "isSorted", overloads: &["list({comparable}).() -> bool"], run: is_sorted },
    Row {
        name: "sum",
        overloads: &["list(int).() -> int"],
        run: |_, arguments| sum(arguments, Value::Int(0)),
    },
    Row {
        name: "sum",
        overloads: &["list(uint).() -> uint"],
        run: |_, arguments| sum(arguments, Value::Uint(0)),
    },
    Row {
        name: "sum",
        overloads: &["list(double).() -> double"],
        run: |_, arguments| sum(arguments, Value::Double(0.0)),
    },
    Row {
        name: "sum",
        overloads: &["list(duration).() -> duration"],
        run: |_, arguments| sum(arguments, Value::Duration(0)),
    },
    Row {
        name: "max",
        overloads: &["list({comparable}).() -> {comparable}"],
        run: |_, arguments| extreme(arguments, "max", Ordering::is_lt),
    },
    Row {
        name: "min",
        overloads: &["list({comparable}).() -> {comparable}"],
        run: |_, arguments| extreme(arguments, "min", Ordering::is_gt),
    },
    Row {
        name: "indexOf",
        overloads: &["list(A).(A) -> int"],
        run: |_, arguments| position(arguments, false),
    },
    Row {
        name: "lastIndexOf",
        overloads: &["list(A).(A) -> int"],
        run: |_, arguments| position(arguments, true),
    },
    Row { name: "slice", overloads: &["list(T).(int, int) -> list(T)"], run: slice },
    Row {
        name: "flatten",
        overloads: &["list(list(T)).() -> list(T)", "list(dyn).(int) -> list(dyn)"],
        run: flatten,
    },
    Row {
        name: "sort",
        overloads: &["list({comparable}).() -> list({comparable})"],
        run: |_, arguments| sort(arguments, &arguments[0]),
    },
    Row {
        name: "@sortByAssociatedKeys",
        overloads: &["list(T).(list({comparable})) -> list(T)"],
        run: |_, arguments| sort(arguments, &arguments[1]),
    },
    Row { name: "lists.range", overloads: &["(int) -> list(int)"], run: range },
    Row { name: "reverse", overloads: &["list(T).() -> list(T)"], run: reverse },
    Row { name: "distinct", overloads: &["list(T).() -> list(T)"], run: distinct },
];

pub(super) const SET_ROWS: &[Row] = &[
    Row {
        name: "sets.contains",
        overloads: &["(list(T), list(T)) -> bool"],
        run: |_, arguments| {
            let (one, other) = two(arguments)?;
            contains_all(one, other).map(Value::Bool)
        },
    },
    Row {
        name: "sets.equivalent",
        overloads: &["(list(T), list(T)) -> bool"],
        run: |_, arguments| {
            let (one, other) = two(arguments)?;
            Ok(Value::Bool(contains_all(one, other)? && contains_all(other, one)?))
        },
    },
    Row {
        name: "sets.intersects",
        overloads: &["(list(T), list(T)) -> bool"],
        run: |_, arguments| {
            let (one, other) = two(arguments)?;
            for item in one.iter() {
                if other.contains(&item?)? {
                    return Ok(Value::Bool(true));
                }
            }
            Ok(Value::Bool(false))
        },
    },
];

fn list<'a, 'v>(arguments: &'a [Value<'v>]) -> Outcome<&'a List<'v>> {
    match arguments.first() {
        Some(Value::List(list)) => Ok(list),
        _ => Err(Failure::NoOverload),
    }
}

fn two<'a, 'v>(arguments: &'a [Value<'v>]) -> Outcome<(&'a List<'v>, &'a List<'v>)> {
    match arguments {
        [Value::List(one), Value::List(other)] => Ok((one, other)),
        _ => Err(Failure::NoOverload),
    }
}

fn contains_all<'v>(one: &List<'v>, other: &List<'v>) -> Outcome<bool> {
    for item in other.iter() {
        if !one.contains(&item?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_sorted<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    let items = list(arguments)?.to_vec()?;
    Ok(Value::Bool(items.windows(2).all(|pair| pair[0].compare(&pair[1]) != Some(Ordering::Greater))))
}

fn sum<'v>(arguments: &[Value<'v>], zero: Value<'v>) -> Outcome<Value<'v>> {
    list(arguments)?.iter().try_fold(zero, |total, item| operators::add(&total, &item?))
}

fn extreme<'v>(arguments: &[Value<'v>], name: &str, is_worse: fn(Ordering) -> bool) -> Outcome<Value<'v>> {
    let mut best: Option<Value<'v>> = None;
    for item in list(arguments)?.iter() {
        let item = item?;
        if best.as_ref().is_none_or(|best| best.compare(&item).is_some_and(is_worse)) {
            best = Some(item);
        }
    }
    best.ok_or_else(|| Failure::Error(format!("{name} called on empty list")))
}

fn position<'v>(arguments: &[Value<'v>], is_last: bool) -> Outcome<Value<'v>> {
    let [Value::List(list), wanted] = arguments else { return Err(Failure::NoOverload) };
    let mut found = -1;
    for (index, item) in list.iter().enumerate() {
        if item?.equals(wanted)? {
            found = index as i64;
            if !is_last {
                break;
            }
        }
    }
    Ok(Value::Int(found))
}

fn slice<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = arguments else {
        return Err(Failure::NoOverload);
    };
    let wrong = |why: String| Err(Failure::Error(format!("cannot slice({start}, {end}), {why}")));
    let (Ok(first), Ok(after)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return wrong("negative indexes not supported".to_owned());
    };
    if first > after {
        return wrong("start index must be less than or equal to end index".to_owned());
    }
    if list.len() < after {
        return wrong(format!("list is length {}", list.len()));
    }
    Ok(Value::list((first..after).filter_map(|index| list.get(index)).collect::<Outcome<_>>()?))
}

fn flatten<'v>(meter: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    fn add<'v>(meter: &mut Meter, list: &List<'v>, depth: i64, flat: &mut Vec<Value<'v>>) -> Outcome<()> {
        for item in list.iter() {
            meter.charge(1)?;
            match item? {
                Value::List(inner) if depth > 0 => add(meter, &inner, depth - 1, flat)?,
                item => flat.push(item),
            }
        }
        Ok(())
    }
    let depth = match arguments.get(1) {
        None => 1,
        Some(Value::Int(depth)) => *depth,
        Some(_) => return Err(Failure::NoOverload),
    };
    if depth < 0 {
        return Err(Failure::error("level must be non-negative"));
    }
    let mut flat = Vec::new();
    add(meter, list(arguments)?, depth, &mut flat)?;
    Ok(Value::list(flat))
}

/// The items of the first argument in the order of others.
fn sort<'v>(arguments: &[Value<'v>], keys: &Value<'v>) -> Outcome<Value<'v>> {
    let items = list(arguments)?.to_vec()?;
    let Value::List(keys) = keys else { return Err(Failure::NoOverload) };
    let keys = keys.to_vec()?;
    if items.len() != keys.len() {
        return Err(Failure::Error(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} \
             elements respectively",
            items.len(),
            keys.len()
        )));
    }
    if keys.iter().any(|key| key.type_name() != keys[0].type_name()) {
        return Err(Failure::error("list elements must have the same type"));
    }
    if keys.iter().any(|key| !key.is_nan() && key.compare(key).is_none()) {
        return Err(Failure::error("list elements must be comparable"));
    }
    let mut pairs: Vec<(Value<'v>, Value<'v>)> = keys.into_iter().zip(items).collect();
    kubernetes::go::sort(&mut pairs, |one, other| one.0.compare(&other.0) == Some(Ordering::Less));
    Ok(Value::list(pairs.into_iter().map(|(_, item)| item).collect()))
}

fn range<'v>(meter: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    let [Value::Int(count)] = arguments else { return Err(Failure::NoOverload) };
    let count = (*count).max(0);
    meter.charge(LIST_COST + count.unsigned_abs())?;
    Ok(Value::list((0..count).map(Value::Int).collect()))
}

fn reverse<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    let mut items = list(arguments)?.to_vec()?;
    items.reverse();
    Ok(Value::list(items))
}

fn distinct<'v>(_: &mut Meter, arguments: &[Value<'v>]) -> Outcome<Value<'v>> {
    let mut found = List::new(Vec::new());
    for item in list(arguments)?.iter() {
        let item = item?;
        if !found.contains(&item)? {
            found.push(item)?;
        }
    }
    Ok(Value::List(found))
}
