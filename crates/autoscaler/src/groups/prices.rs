//! What machines cost, as Gardener's lists of prices say.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use super::NodeGroup;
use super::node_template::INSTANCE_TYPE;

/// What a machine of each type costs an hour.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prices(pub BTreeMap<Arc<str>, f64>);

/// Prices of a month are for so many hours.
const HOURS_A_MONTH: f64 = 730.0;

// === impl Prices ===

impl Prices {
    /// Reads a list of prices for a month, taking the one that Gardener compares by: reserved for three years, less
    /// discounts. `None` if it is no such list; types without that price do not count.
    pub fn read(list: &Value) -> Option<Prices> {
        let entries = list["results"].as_array()?;
        let priced = entries.iter().filter_map(|entry| {
            let kind = entry["instance_type"].as_str()?;
            let month = entry["edp_price"]["ri_3_years"].as_f64().filter(|price| *price > 0.0)?;
            Some((kind.into(), month / HOURS_A_MONTH))
        });
        Some(Prices(priced.collect()))
    }

    /// Gives groups without a price that of the type of their machines.
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
    use super::Prices;

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
        Prices::read(&list).unwrap().apply(&mut groups);
        let prices: Vec<Option<f64>> = groups.iter().map(|group| group.price).collect();
        assert_eq!(prices, [Some(0.1), None, Some(5.0)]);
        assert_eq!(Prices::read(&json!([])), None);
    }
}
