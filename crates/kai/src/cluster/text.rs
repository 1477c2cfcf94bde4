//! Numbers as the original's messages show them.

use super::gpu::GpuRequirement;
use super::queue::UNLIMITED;
use super::resources::{
    CPU, GPU, MEMORY, ResourceNames, ResourceVector, is_mig_resource, is_storage_resource,
};

/// Millicores of a core.
pub(crate) const MILLI: f64 = 1000.0;
/// Bytes of a gigabyte.
pub(crate) const GIGA: f64 = 1e9;

/// An amount in a larger unit with at most three digits after the point, not rounded; or `Unlimited`.
pub(crate) fn humanize(amount: f64, unit: f64) -> String {
    if amount == UNLIMITED { "Unlimited".to_owned() } else { with_digits(amount / unit) }
}

/// A number with at most three digits after the point, not rounded.
pub(crate) fn with_digits(number: f64) -> String {
    let text = format!("{number:.6}");
    let Some((whole, digits)) = text.split_once('.') else { return text };
    let digits = digits[..3].trim_end_matches('0');
    if digits.is_empty() { whole.to_owned() } else { format!("{whole}.{digits}") }
}

/// A request, all resources included.
pub(crate) fn detailed_request(
    vector: &ResourceVector,
    gpu: &GpuRequirement,
    names: &ResourceNames,
) -> String {
    let mut text = format!(
        "GPU: {}, CPU: {} (cores), memory: {} (GB)",
        humanize(gpu.quota(), 1.0),
        humanize(vector.get(CPU), MILLI),
        humanize(vector.get(MEMORY), GIGA),
    );
    for (index, name) in names.names().iter().enumerate() {
        let amount = vector.get(index);
        if matches!(index, CPU | MEMORY | GPU) || is_mig_resource(name) || amount == 0.0 {
            continue;
        }
        if is_storage_resource(name) {
            text += &format!(", {name}: {} (GB)", humanize(amount / GIGA, 1.0));
        } else {
            text += &format!(", {name}: {}", humanize(amount, 1.0));
        }
    }
    for (name, count) in &gpu.mig {
        text += &format!(", mig {name}: {count}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_cut_off() {
        assert_eq!(with_digits(1.9999), "1.999");
        assert_eq!(with_digits(2.0), "2");
        assert_eq!(with_digits(10.5), "10.5");
        assert_eq!(humanize(-1.0, 1000.0), "Unlimited");
    }
}
