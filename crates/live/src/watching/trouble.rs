//! What goes wrong: what is missed by it, what to ask then, and when.

use std::time::Duration;

use model::{Gap, Moment};

use super::failure::{Failure, Meaning};
use super::{Ask, Doing, LASTED, LONG_DARK, Lost, STUMBLES, Watching, is_before};

// === impl Watching ===

impl Watching {
    /// A watch is over, in order or not.
    pub(super) fn ended(&mut self, now: Moment, chance: f64) -> Ask {
        let Doing::Watching { stream, is_doubted, .. } = &mut self.doing else { return self.ask(chance) };
        let (has_lines, has_lasted) = stream
            .take()
            .map_or((false, false), |stream| (stream.has_lines, now.nanos_since(stream.opened) >= LASTED));
        if has_lasted {
            *is_doubted = !has_lines;
            self.was_short = false;
            self.recovered();
            return self.ask(chance);
        }
        if has_lines && !std::mem::replace(&mut self.was_short, true) {
            return self.ask(chance);
        }
        self.wait(Failure::said("the server ended the watch at once".to_owned()), now, chance)
    }

    /// There is no answer, or a refusal.
    pub(super) fn fail(&mut self, failure: Failure, now: Moment, chance: f64) -> Ask {
        if matches!(self.doing, Doing::Listing { .. }) && failure.status.is_none() {
            // A page that did not come may have been too big for the time or the room there is.
            self.limit = (self.limit / 2).max(1);
        }
        match (&mut self.doing, failure.meaning()) {
            (Doing::Watching { from, .. }, Meaning::Expired) => {
                let why = format!("the server no longer had the changes after version {from}");
                self.lose(why, now);
                return self.list_anew(failure, now, chance);
            }
            // It may be this version that it cannot deal with.
            (Doing::Watching { is_doubted: false, .. }, Meaning::Passing) if failure.status == Some(500) => {
                return self.stumble(failure, now, chance);
            }
            // A mark that is no longer good, whatever the reason.
            (
                Doing::Listing { after: Some(_), .. },
                Meaning::Expired | Meaning::Refused | Meaning::Absent,
            ) => {
                self.lose("the list had to be begun again".to_owned(), now);
                return self.list_anew(failure, now, chance);
            }
            (Doing::Listing { after: None, .. }, Meaning::Expired | Meaning::Passing) => {
                self.lose(format!("it could not be listed: {failure}"), now);
            }
            // It will go on where it stands, and nothing is missed.
            (Doing::Listing { after: Some(_), .. } | Doing::Watching { .. }, Meaning::Passing) => {}
            (_, meaning @ (Meaning::Refused | Meaning::Absent)) => {
                if meaning == Meaning::Absent {
                    self.restart_list();
                }
                let lost = self.lose(failure.to_string(), now);
                if !std::mem::replace(&mut lost.is_said, true) {
                    self.told.troubles.push(format!("cannot be watched for now: {failure}"));
                    self.tell_lost(now);
                }
            }
        }
        self.wait(failure, now, chance)
    }

    /// The server said what makes no sense, or that it does not know what to say.
    pub(super) fn stumble(&mut self, failure: Failure, now: Moment, chance: f64) -> Ask {
        self.stumbles += 1;
        match &self.doing {
            Doing::Watching { from, .. } if self.stumbles >= STUMBLES => {
                let why = format!("the server could not say what came after version {from}: {failure}");
                self.lose(why, now);
                self.list_anew(failure, now, chance)
            }
            Doing::Watching { .. } | Doing::Listing { .. } => self.wait(failure, now, chance),
        }
    }

    /// Whoever carries questions and answers has panicked: what was told last may not be known here. Says how long to wait
    /// before the list with which it goes on.
    pub(crate) fn broke(&mut self, why: String, now: Moment, chance: f64) -> Duration {
        let lost = self.lose(why.clone(), now);
        if !std::mem::replace(&mut lost.is_said, true) {
            self.told.troubles.push(why.clone());
        }
        self.restart_list();
        match self.wait(Failure::said(why), now, chance) {
            Ask::Wait(wait) => wait,
            Ask::List { .. } | Ask::Watch { .. } => Duration::ZERO,
        }
    }

    /// Lists from the first page; at once if this has not come to nothing before. Whoever says that it must be done is
    /// there: however often there was no answer before, that is over.
    fn list_anew(&mut self, failure: Failure, now: Moment, chance: f64) -> Ask {
        self.restart_list();
        if std::mem::replace(&mut self.is_listed_anew, true) {
            return self.wait(failure, now, chance);
        }
        self.failures = 1;
        self.ask(chance)
    }

    /// A watch has worked.
    pub(super) fn recovered(&mut self) {
        (self.failures, self.is_listed_anew) = (0, false);
    }

    fn restart_list(&mut self) {
        self.doing = Doing::listing();
        self.round += 1;
        self.just_deleted.clear();
        self.stumbles = 0;
    }

    fn wait(&mut self, failure: Failure, now: Moment, chance: f64) -> Ask {
        let wait = failure.wait(self.failures, chance);
        self.failures = self.failures.saturating_add(1);
        if let Doing::Watching { stream, is_doubted, .. } = &mut self.doing {
            // One that answers, but not to that question, is asked the other one.
            (*stream, *is_doubted) = (None, !*is_doubted || failure.status.is_none());
        }
        let since = self.waiting.take().map_or(now, |(_, since)| since);
        if now.nanos_since(since) >= LONG_DARK {
            self.lose(failure.to_string(), now);
        }
        self.waiting = Some((failure, since));
        if self.lost.as_ref().is_some_and(|lost| now.nanos_since(lost.since) >= LONG_DARK) {
            self.tell_lost(now);
        }
        Ask::Wait(wait)
    }

    /// The server stands at this version. kube-apiserver accepts watches from versions that are still to come, as they
    /// are when its store was put back to an earlier state, and is silent until it has reached them.
    pub(super) fn looked(&mut self, version: &str, now: Moment) {
        let Doing::Watching { from, is_doubted, .. } = &mut self.doing else { return };
        *is_doubted = false;
        if is_before(version, from) {
            let why = format!("the server went back from version {from} to {version}");
            self.lose(why, now);
            self.restart_list();
        }
    }

    /// From the last moment of which all was told on, something may be missed.
    fn lose(&mut self, why: String, now: Moment) -> &mut Lost {
        let since = self.sure.or(self.began()).unwrap_or(now);
        self.lost.get_or_insert(Lost { since, why, is_said: false })
    }

    /// What is going on is known again.
    pub(super) fn found(&mut self, now: Moment) {
        self.tell_lost(now);
        if self.lost.take().is_some_and(|lost| lost.is_said) {
            self.told.troubles.push("recording again".to_owned());
        }
    }

    /// Tells how long it has not been known what is going on.
    pub(super) fn tell_lost(&mut self, now: Moment) {
        let Some(lost) = &mut self.lost else { return };
        let (since, why) = (std::mem::replace(&mut lost.since, now), lost.why.clone());
        self.tell_gap(since, now, why);
    }

    /// A server that says what no object can be; what it meant is missed.
    pub(super) fn unreadable(&mut self, why: &str, now: Moment) {
        let why = format!("the server sent what cannot be kept: {why}");
        self.told.troubles.push(why.clone());
        self.miss(why, now);
    }

    /// Something was missed between what was told last and now.
    pub(super) fn miss(&mut self, why: String, now: Moment) {
        self.tell_gap(self.sure.unwrap_or(now), now, why);
    }

    fn tell_gap(&mut self, since: Moment, now: Moment, why: String) {
        let (source, kinds) = (self.subject.source.clone(), vec![self.subject.kind.clone()]);
        // The clock may have been put back; what is told takes effect at the later time.
        self.told.news.gaps.push(Gap { source, kinds, from: since.min(now), to: since.max(now), why });
    }
}
