//! Machine prices from Gardener's price lists.

use std::collections::BTreeMap;
use std::sync::Arc;

use kubernetes::well_known::INSTANCE_TYPE;
use serde_json::Value;

use super::NodeGroup;

/// Hourly prices by instance type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MachinePrices(pub BTreeMap<Arc<str>, f64>);

/// The number of hours in a monthly price.
const HOURS_A_MONTH: f64 = 730.0;

// === impl MachinePrices ===

impl MachinePrices {
    /// Reads a list of monthly prices, using the one that Gardener compares by: reserved for three years, less
    /// discounts. `None` if it is no such list; types without that price are left out.
    pub fn read(list: &Value) -> Option<MachinePrices> {
        let entries = list["results"].as_array()?;
        let priced = entries.iter().filter_map(|entry| {
            let kind = entry["instance_type"].as_str()?;
            let month = entry["edp_price"]["ri_3_years"].as_f64().filter(|price| *price > 0.0)?;
            Some((kind.into(), month / HOURS_A_MONTH))
        });
        Some(MachinePrices(priced.collect()))
    }

    /// Sets the price of groups without one by their instance type.
    pub fn apply(&self, groups: &mut [NodeGroup]) {
        for group in groups.iter_mut().filter(|group| group.price.is_none()) {
            let node = group.template.value().unwrap_or_default();
            let kind = node["metadata"]["labels"][INSTANCE_TYPE].as_str().unwrap_or_default();
            group.price = self.0.get(kind).copied();
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::NodeGroups;
    use super::MachinePrices;

    #[test]
    fn groups_get_the_price_of_their_type() {
        let entry = |kind: &str, price: serde_json::Value| json!({"instance_type": kind, "vcpu": 4, "memory": 16, "edp_price": {"pay_as_you_go": 140.2, "ri_3_years": price}, "unit_of_measure": "Month"});
        let list = json!({"count": 3, "results": [entry("a", json!(73.0)), entry("b", json!("NA")), entry("c", json!(7.3))]});
        let group = |name: &str, kind: &str, price: Option<f64>| {
            json!({"name": name, "min": 0, "max": 1, "price": price,
                "template": {"cpu": 1, "pods": 1, "instanceType": kind}})
        };
        let file =
            json!({"groups": [group("1", "a", None), group("2", "b", None), group("3", "c", Some(5.0))]});
        let mut groups = NodeGroups::read(&file).unwrap().groups;
        MachinePrices::read(&list).unwrap().apply(&mut groups);
        let prices: Vec<Option<f64>> = groups.iter().map(|group| group.price).collect();
        assert_eq!(prices, [Some(0.1), None, Some(5.0)]);
        assert_eq!(MachinePrices::read(&json!([])), None);
    }
}
