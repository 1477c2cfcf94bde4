//! Queues on the terminal: their shares, and who borrows from whom.

use std::io::Write;

use snapshot::{Borrowing, QueueReport, Resource, ResourceShare};

use super::columns::{MAX_ROWS, TableRow, more_rows, write_rows};
use crate::output::{Printer, format_bytes};

const UNLIMITED: f64 = -1.0;
const TOLERANCE: f64 = 1e-6;

/// An amount of a resource: devices, cores, bytes.
pub(super) fn amount(resource: Resource, amount: f64) -> String {
    if amount == UNLIMITED {
        return "∞".to_owned();
    }
    match resource {
        Resource::Gpu => number(amount),
        Resource::Cpu => number(amount / 1000.0),
        Resource::Memory => format_bytes(amount.max(0.0) as u64),
    }
}

/// The resources to show: those with quotas or limits that are not unlimited, or with fair shares below requests. GPUs
/// come first, and alone where nothing else is limited.
pub(super) fn is_shown(
    resource: Resource,
    shares: impl IntoIterator<Item = (Resource, ResourceShare)>,
) -> bool {
    shares.into_iter().filter(|(of, _)| *of == resource).any(|(_, share)| {
        let is_limited = share.quota != UNLIMITED || share.limit != UNLIMITED;
        let is_used = share.requested > TOLERANCE || share.allocated_after > TOLERANCE;
        is_limited && is_used
    })
}

/// Prints the shares of queues, a table for each resource that quotas are about.
pub(super) fn write_queues(out: &mut Printer, queues: &[QueueReport], wide: bool) -> anyhow::Result<()> {
    let of_all = |resource: Resource| queues.iter().map(move |queue| (resource, *resource.of(queue)));
    let is_worth = |resource: &Resource| wide || is_shown(*resource, of_all(*resource));
    for resource in Resource::ALL.into_iter().filter(is_worth) {
        let title = match resource {
            Resource::Gpu => "GPU BY QUEUE",
            Resource::Cpu => "CPU BY QUEUE",
            Resource::Memory => "MEMORY BY QUEUE",
        };
        let columns = [title, "QUOTA", "LIMIT", "FAIR SHARE", "REQUESTED", "ALLOCATED", "BORROWED"];
        let mut rows = vec![TableRow::heading(columns)];
        let limit = if wide { usize::MAX } else { MAX_ROWS };
        for queue in queues.iter().take(limit) {
            let share = resource.of(queue);
            let (before, after) =
                (amount(resource, share.allocated), amount(resource, share.allocated_after));
            let borrowed = share.allocated_after - share.quota;
            let is_borrowed = share.quota != UNLIMITED && borrowed > TOLERANCE;
            rows.push(TableRow::of([
                format!("{}{}", "  ".repeat(queue.depth), queue.name),
                amount(resource, share.quota),
                amount(resource, share.limit),
                amount(resource, share.fair_share),
                amount(resource, share.requested),
                if before == after { after } else { format!("{before} → {after}") },
                if is_borrowed { amount(resource, borrowed) } else { "-".to_owned() },
            ]));
        }
        writeln!(out)?;
        write_rows(out, &rows, &[1, 2, 3, 4, 5, 6])?;
        more_rows(out, queues.len(), limit)?;
    }
    Ok(())
}

/// Prints who borrows from whom.
pub(super) fn write_borrowing(
    out: &mut Printer,
    borrowing: &[Borrowing],
    queues: &[QueueReport],
    wide: bool,
) -> anyhow::Result<()> {
    let of_all = |resource: Resource| queues.iter().map(move |queue| (resource, *resource.of(queue)));
    let mut is_first = true;
    for group in borrowing.iter().filter(|it| wide || is_shown(it.resource, of_all(it.resource))) {
        if std::mem::take(&mut is_first) {
            writeln!(out)?;
        }
        let unit = |number: f64| format!("{} {}", amount(group.resource, number), unit_name(group.resource));
        let borrowers: Vec<String> =
            group.borrowers.iter().map(|it| format!("{} borrows {}", it.queue, unit(it.amount))).collect();
        let mut sources: Vec<String> = group
            .lenders
            .iter()
            .map(|lender| {
                let waits = if lender.is_waiting { ", whose pods wait" } else { "" };
                format!("{} unused by {}{waits}", unit(lender.unused).trim_end(), lender.queue)
            })
            .collect();
        if group.beyond_quotas > TOLERANCE {
            sources.push(format!("{} in no quota", unit(group.beyond_quotas).trim_end()));
        }
        let sources =
            if sources.is_empty() { "quotas exceed what there is".to_owned() } else { sources.join("; ") };
        let text = format!("{} (of {sources})", borrowers.join(", "));
        for line in crate::lines::wrap_text(&text, out.width(), 0) {
            writeln!(out, "{}", line.replace("  ", " "))?;
        }
    }
    Ok(())
}

fn unit_name(resource: Resource) -> &'static str {
    match resource {
        Resource::Gpu => "GPU",
        Resource::Cpu => "cpu",
        Resource::Memory => "of memory",
    }
}

/// A number without unnecessary digits.
pub(super) fn number(number: f64) -> String {
    let rounded = (number * 1000.0).round() / 1000.0;
    // No negative zero.
    format!("{}", rounded + 0.0)
}
