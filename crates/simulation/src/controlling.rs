//! The controllers at work: what they make, change and delete.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use controllers::{Controller, Controllers, Do, Doomed, OwnerName, Words};
use kubernetes::time::whole_second;
use model::{Kind, Moment, NamespacedName, Object, What};
use serde_json::{Value, json};

use super::agenda::Due;
use super::given::{Again, Asked, Demand, DemandId, Life, Runs};
use super::told::Audience;
use super::{Run, after};
use crate::pace::Step;

/// Remembers what was recorded of pods that controllers make.
pub trait Memory: fmt::Debug {
    /// The recorded pod that a new one stands for, the next of its owner's. The owner is the first of those named, the
    /// others own it in turn.
    fn recall(&mut self, pod: &Object, owners: &[OwnerName]) -> Option<Remembered>;
}

/// What was recorded of a pod.
#[derive(Clone, Debug, Default)]
pub struct Remembered {
    /// Which demand it was; `None` if there were not so many, and it is like one of them.
    pub demand: Option<DemandId>,
    /// The pod itself.
    pub lives: Vec<Life>,
    /// Its containers end by themselves so long after they have started.
    pub runs: Option<Runs>,
}

/// Controllers, and the objects they write.
#[derive(Debug)]
pub(super) struct Control<'m> {
    controllers: Controllers,
    memory: Option<&'m mut dyn Memory>,
    objects: BTreeMap<(Kind, NamespacedName), Object>,
    /// When they will look at what there is to do.
    wakes: Option<Moment>,
    /// They do, and see for themselves what comes of it.
    at_work: bool,
}

/// How often controllers work at one moment; what is left then waits a little.
const ROUNDS: usize = 100_000;
/// They rest at least so long.
const REST: Duration = Duration::from_millis(1);

impl<'m> Run<'m> {
    /// The same with these controllers. Beside a recording they call ReplicaSets by its words, and memory tells what the pods
    /// that they make were like.
    #[must_use]
    pub fn with_controllers(
        mut self,
        which: &[Controller],
        recorded: Option<Words>,
        memory: Option<&'m mut dyn Memory>,
    ) -> Run<'m> {
        let mut controllers = Controllers::new(which, self.seed);
        if let Some(words) = recorded {
            controllers.learn(words);
        }
        self.control =
            Some(Control { controllers, memory, objects: BTreeMap::new(), wakes: None, at_work: false });
        self
    }
}

impl Run<'_> {
    /// What was asked for and no controller does, with how often.
    pub fn left_out(&self) -> impl Iterator<Item = (&str, u64)> {
        self.control.iter().flat_map(|control| control.controllers.left_out())
    }

    /// Tells the controllers of something; they will look at it in a while.
    pub(super) fn tell_controllers(&mut self, what: &What) {
        let Some(control) = &mut self.control else { return };
        control.controllers.apply(self.now, what);
        if control.at_work || control.wakes.is_some() || !control.controllers.has_work() {
            return;
        }
        let step = if what.object().meta().kind == "Node" { Step::Daemon } else { Step::Again };
        let at = after(self.now, self.pacer.draw(step, self.now));
        control.wakes = Some(at);
        self.agenda.put(at, Due::Work);
    }

    /// When time alone gives controllers something to do.
    pub(super) fn next_work(&self) -> Option<Moment> {
        self.control.as_ref()?.controllers.next_wake()
    }

    /// Whether a controller makes this pod, so that it does not come with its node.
    pub(super) fn is_made_by_controller(&self, pod: &Object) -> bool {
        self.control.as_ref().is_some_and(|control| control.controllers.make(pod))
    }

    /// The controllers do what there is to do.
    pub(super) fn work(&mut self, audience: &mut dyn Audience) {
        for _ in 0..ROUNDS {
            let Some(control) = &mut self.control else { return };
            control.at_work = true;
            let done = control.controllers.work(self.now);
            if done.is_empty() {
                (control.at_work, control.wakes) = (false, None);
                return;
            }
            for deed in done {
                self.carry_out_deed(deed, audience);
            }
        }
        let at = after(self.now, REST);
        if let Some(control) = &mut self.control {
            (control.at_work, control.wakes) = (false, Some(at));
            self.agenda.put(at, Due::Work);
        }
    }

    fn carry_out_deed(&mut self, deed: Do, audience: &mut dyn Audience) {
        match deed {
            Do::Create(object) if is_pod(&object) => self.make_for_controller(object, audience),
            Do::Create(object) => self.set_object(object, audience),
            Do::Update(object) if is_pod(&object) => self.release(&object, audience),
            Do::Update(object) => {
                let fields = Deletion::of(&object);
                if fields.has_begun && !fields.has_finalizers {
                    self.remove_object(&kind_of(&object), &name_of(&object), audience);
                } else {
                    self.set_object(object, audience);
                }
            }
            Do::Delete(doomed) => self.delete_doomed(&doomed, audience),
        }
    }

    /// A pod that a controller asks for.
    fn make_for_controller(&mut self, pod: Object, audience: &mut dyn Audience) {
        let Some(control) = &mut self.control else { return };
        let owners = control.controllers.owners_of(&pod);
        let known = control.memory.as_mut().and_then(|memory| memory.recall(&pod, &owners));
        let Remembered { demand, mut lives, runs } = known.unwrap_or_default();
        let id = demand.unwrap_or_else(|| self.own_demand());
        if lives.is_empty() {
            let meta = pod.meta();
            let uid = meta.uid.as_deref().unwrap_or_default().into();
            lives.push(Life { name: (*meta.name).into(), uid, ..Life::default() });
        }
        let demand = Demand {
            id,
            pod,
            after: None,
            begun: None,
            again: Again::Never,
            set: None,
            runs,
            lives,
            unmade: None,
        };
        // A template that makes no sense was refused when its owner was read.
        if let Ok(asked) = Asked::of(demand) {
            self.ask(asked, audience);
        }
    }

    fn delete_doomed(&mut self, doomed: &Doomed, audience: &mut dyn Audience) {
        let name = NamespacedName { namespace: doomed.namespace.clone(), name: doomed.name.clone() };
        if doomed.kind == Kind::new("", "Pod") {
            let id = self.names.get(&name).copied();
            if let Some(id) = id.filter(|id| self.pods.get(id).is_some_and(|pod| *pod.uid() == doomed.uid)) {
                self.withdraw(id.demand, audience);
            }
            return;
        }
        let Some(control) = &self.control else { return };
        let known = control.objects.get(&(doomed.kind.clone(), name.clone()));
        let Some(known) = known.filter(|known| known.meta().uid.as_deref() == Some(&*doomed.uid)) else {
            return;
        };
        if !Deletion::of(known).has_finalizers {
            self.remove_object(&doomed.kind, &name, audience);
        } else if let Ok(mut value) = known.value() {
            value["metadata"]["deletionTimestamp"] = whole_second(self.now).to_string().into();
            value["metadata"]["deletionGracePeriodSeconds"] = 0.into();
            self.set_object(Object::trusted(value.to_string()), audience);
        }
    }

    /// Whether an object is for controllers to write: then only what people say of it is given.
    pub(super) fn is_controlled(&self, kind: &Kind) -> bool {
        self.control.as_ref().is_some_and(|control| control.controllers.write(kind))
    }

    /// An object that controllers write, as somebody else left it: with the status it has here. One that is there at the
    /// beginning has the status it had.
    pub(super) fn give_controlled(&mut self, kind: &Kind, what: What, audience: &mut dyn Audience) {
        let name = name_of(what.object());
        let Some(control) = &self.control else { return };
        let known = control.objects.get(&(kind.clone(), name.clone()));
        match (what, known) {
            (What::Deleted(_), _) => self.remove_object(kind, &name, audience),
            // It is gone here.
            (What::Modified(_), None) => {}
            (What::Added(object), None) => self.set_object(with_uid(object), audience),
            (What::Added(object) | What::Modified(object), Some(known)) => {
                if let Some(object) = with_status_of(&object, known) {
                    self.set_object(object, audience);
                }
            }
        }
    }

    fn set_object(&mut self, object: Object, audience: &mut dyn Audience) {
        let Some(control) = &mut self.control else { return };
        let place = (kind_of(&object), name_of(&object));
        let is_new = control.objects.insert(place, object.clone()).is_none();
        self.tell(if is_new { What::Added(object) } else { What::Modified(object) }, audience);
    }

    fn remove_object(&mut self, kind: &Kind, name: &NamespacedName, audience: &mut dyn Audience) {
        let Some(control) = &mut self.control else { return };
        if let Some(object) = control.objects.remove(&(kind.clone(), name.clone())) {
            self.tell(What::Deleted(object), audience);
        }
    }
}

/// What an object says of its deletion.
struct Deletion {
    has_begun: bool,
    has_finalizers: bool,
}

impl Deletion {
    fn of(object: &Object) -> Deletion {
        let value = object.value().unwrap_or_default();
        let finalizers = value["metadata"]["finalizers"].as_array();
        Deletion {
            has_begun: value["metadata"]["deletionTimestamp"].is_string(),
            has_finalizers: finalizers.is_some_and(|all| !all.is_empty()),
        }
    }
}

fn is_pod(object: &Object) -> bool {
    kind_of(object) == Kind::new("", "Pod")
}

fn kind_of(object: &Object) -> Kind {
    let meta = object.meta();
    Kind::of(&meta.api_version, &meta.kind)
}

fn name_of(object: &Object) -> NamespacedName {
    let meta = object.meta();
    NamespacedName { namespace: (*meta.namespace).into(), name: (*meta.name).into() }
}

/// An object that has a uid: what belongs to it is known by it.
fn with_uid(object: Object) -> Object {
    if object.meta().uid.as_deref().is_some_and(|uid| !uid.is_empty()) {
        return object;
    }
    let Ok(mut value) = object.value() else { return object };
    let meta = object.meta();
    value["metadata"]["uid"] = format!("{}/{}/{}", meta.kind, meta.namespace, meta.name).into();
    Object::trusted(value.to_string())
}

/// What people said of an object, with the status that it has; `None` if they said nothing new.
fn with_status_of(object: &Object, known: &Object) -> Option<Object> {
    let (Ok(mut value), Ok(known)) = (object.value(), known.value()) else { return Some(object.clone()) };
    value["status"] = known["status"].clone();
    if value["metadata"]["uid"].is_null() {
        value["metadata"]["uid"] = known["metadata"]["uid"].clone();
    }
    if value["status"].is_null()
        && let Some(fields) = value.as_object_mut()
    {
        fields.remove("status");
    }
    let said = |value: &Value| {
        let meta = &value["metadata"];
        let fields = ["labels", "annotations", "deletionTimestamp", "finalizers", "ownerReferences", "uid"];
        json!([fields.map(|field| &meta[field]), value["spec"]])
    };
    (said(&value) != said(&known)).then(|| Object::trusted(value.to_string()))
}
