//! What controllers decided is carried out: objects and pods that they create, change and delete.

use controllers::{Do, Doomed};
use model::{Kind, NamespacedName};

use super::Run;
use crate::observer::Observer;
use crate::store::kind_of;
use crate::timeline::Due;

/// How often controllers work at one moment; what is left then waits a little.
const ROUNDS: usize = 100_000;

impl<O: Observer> Run<'_, O> {
    /// The controllers do what there is to do.
    pub(super) fn work(&mut self) {
        let now = self.now();
        for _ in 0..ROUNDS {
            let Some(controllers) = &mut self.informers.controllers else { return };
            let done = controllers.work(now);
            if done.is_empty() {
                return;
            }
            for one in done {
                self.carry_out_for_controller(one);
            }
        }
        if let Some(controllers) = &mut self.informers.controllers {
            self.timeline.put(controllers.pause(now), Due::Work);
        }
    }

    fn carry_out_for_controller(&mut self, what: Do) {
        let is_pod = |object| kind_of(object) == Kind::new("", "Pod");
        match what {
            Do::Create(object) if is_pod(&object) => self.make_for_controller(object),
            Do::Create(object) => {
                let created = self.objects.set(object);
                self.tell_object(Some(created));
            }
            Do::Update(object) if is_pod(&object) => self.release(&object),
            Do::Update(object) => {
                let updated = self.objects.update(object);
                self.tell_object(updated);
            }
            Do::Delete(doomed) => self.delete_for_controller(&doomed),
        }
    }

    fn delete_for_controller(&mut self, doomed: &Doomed) {
        let name = NamespacedName { namespace: doomed.namespace.clone(), name: doomed.name.clone() };
        if doomed.kind != Kind::new("", "Pod") {
            let deleted = self.objects.delete(self.timeline.now(), &doomed.kind, &name, &doomed.uid);
            self.tell_object(deleted);
            return;
        }
        let id = self.pods.find(&name);
        if let Some(id) = id.filter(|id| self.pods.get(*id).is_some_and(|pod| pod.uid == doomed.uid)) {
            self.withdraw(id.demand);
        }
    }

    /// Whether an object is for controllers to write: then only what people say of it is given.
    pub(super) fn is_controlled(&self, kind: &Kind) -> bool {
        self.informers.controllers.as_ref().is_some_and(|controllers| controllers.writes(kind))
    }
}
