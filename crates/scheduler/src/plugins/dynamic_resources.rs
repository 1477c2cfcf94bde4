//! Devices by claims. They are not simulated: a pod that wants some is refused, so that none is placed as if it wanted
//! nothing. For all other pods it does what the original does.

use kubernetes::amounts::ScalarNames;

use super::super::node::NodeSpec;
use super::super::plugin::Plugin;
use super::super::pod::Shape;
use super::super::verdict::Refusal;
use super::super::world::Relations;

const NOT_SIMULATED: &str = "dynamic resource allocation is not simulated yet";

/// What making room says of a pod without claims.
pub(crate) const NOTHING_TO_DEALLOCATE: &str = "no new claims to deallocate";
/// What making room says if the pod was refused before this plugin had a look at it; an error, after which nobody
/// else is asked.
pub(crate) const NO_STATE: &str = "not found";

pub(crate) fn pre_filter(shape: &Shape) -> Result<(), Refusal> {
    if shape.has_claims {
        return Err(Refusal::unresolvable(Plugin::DynamicResources, NOT_SIMULATED));
    }
    Ok(())
}

/// An extended resource that stands for a class of devices is allocated where the node does not have it itself.
pub(crate) fn filter(
    shape: &Shape,
    node: &NodeSpec,
    scalars: &ScalarNames,
    relations: &Relations,
) -> Result<(), Refusal> {
    let by_devices = |&(id, wanted): &(_, i64)| {
        wanted != 0 && node.allocatable.scalar(id) == 0 && relations.is_device(scalars.name(id))
    };
    if shape.requests.scalars.iter().any(by_devices) {
        return Err(Refusal::unresolvable(Plugin::DynamicResources, NOT_SIMULATED));
    }
    Ok(())
}
