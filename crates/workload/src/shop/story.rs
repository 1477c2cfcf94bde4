//! What happens to the shop on this day, and what is remembered of it.

use std::sync::Arc;

use model::{Key, Kind, Moment, What};

use crate::objects::SECOND;
use crate::objects::template::{BACKGROUND, Shape, Template};

use super::Story;
use super::cluster::{Cluster, Due, Life, PodId};

/// What people and machines do to the cluster, with the time of day.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Beat {
    CanaryBegins,
    CanaryWins,
    CanaryEnds,
    PicturesCome,
    MaintenanceBegins,
    Reboot,
    PushBegins,
    MaintenanceEnds,
    BadRollout,
    KubeletDies,
    NodeIsLost,
    Overload,
    Rollback,
    NodeReturns,
    PushEnds,
}

/// What is out of the ordinary just now.
pub(super) struct Troubles {
    /// How long a new machine takes.
    pub(super) boot_seconds: i64,
    /// The app whose containers cannot keep going.
    pub(super) crash: Option<&'static str>,
    /// Twice the visitors.
    pub(super) surge: bool,
}

/// What is remembered for [`Story`].
#[derive(Default)]
pub(super) struct Notes {
    lost_at: Option<Moment>,
    first_refusal: Option<Moment>,
    last_relief: Option<Moment>,
    /// How often the unluckiest pod was refused, and which it is.
    unluckiest: Option<(u32, Key)>,
}

const LOST_NODE: &str = "node-a2";
const BROKEN: &str = "checkout";

/// Hour, minute and second of each beat.
const TIMES: [(Beat, [i64; 3]); 15] = [
    (Beat::CanaryBegins, [10, 15, 0]),
    (Beat::CanaryWins, [10, 45, 0]),
    (Beat::CanaryEnds, [11, 0, 0]),
    (Beat::PicturesCome, [13, 35, 0]),
    (Beat::MaintenanceBegins, [13, 44, 0]),
    (Beat::Reboot, [13, 52, 0]),
    (Beat::PushBegins, [14, 0, 0]),
    (Beat::MaintenanceEnds, [14, 0, 40]),
    (Beat::BadRollout, [14, 1, 5]),
    (Beat::KubeletDies, [14, 2, 10]),
    (Beat::NodeIsLost, [14, 3, 0]),
    (Beat::Overload, [14, 4, 30]),
    (Beat::Rollback, [14, 12, 0]),
    (Beat::NodeReturns, [14, 16, 30]),
    (Beat::PushEnds, [15, 5, 0]),
];

// === impl Troubles ===

impl Default for Troubles {
    fn default() -> Troubles {
        Troubles { boot_seconds: 100, crash: None, surge: false }
    }
}

// === impl Notes ===

impl Notes {
    /// A pod was refused a place.
    pub(super) fn refused(&mut self, life: &Life, now: Moment) {
        if self.lost_at.is_some() && life.matters() {
            self.first_refusal.get_or_insert(now);
        }
    }

    /// A pod got a place.
    pub(super) fn placed(&mut self, life: &Life, now: Moment) {
        let during = self.lost_at.is_some_and(|lost| now.nanos_since(lost) < 1_800 * SECOND);
        if during && life.refusals > 0 && life.matters() {
            self.last_relief = Some(now);
        }
    }

    /// A pod is gone.
    pub(super) fn ended(&mut self, life: &Life) {
        let evicted = life.pod.disruption.is_some_and(|it| it.reason == "DeletionByTaintManager");
        let worse = self.unluckiest.as_ref().is_none_or(|(refusals, _)| life.refusals > *refusals);
        if evicted && life.refusals > 0 && worse {
            self.unluckiest = Some((life.refusals, life.pod.meta.key.clone()));
        }
    }
}

impl Cluster {
    /// Sets the times of the day's events. `begin` is seven o'clock.
    pub(super) fn tell(&mut self, begin: Moment) {
        let midnight = begin.plus_nanos(-7 * 3_600 * SECOND);
        self.at(begin, Due::Record);
        // By then the pods of the first hour have their places.
        self.after(3_600 * SECOND, Due::Scan);
        for (beat, _) in TIMES {
            self.at(midnight.plus_nanos(time_of(beat)), Due::Beat(beat));
        }
    }

    pub(super) fn play(&mut self, beat: Beat) {
        match beat {
            Beat::CanaryBegins => self.begin_canary(),
            Beat::CanaryWins => self.roll_out("recommendations", "0.28.0", true),
            Beat::CanaryEnds => {
                if let Some(canary) = self.deployment("recommendations-canary") {
                    self.delete_deployment(canary);
                }
            }
            Beat::PicturesCome => {
                let outline =
                    self.outline("batch", "image-resize", "2.0.1", (500, 1_024), BACKGROUND, Shape::ToTheEnd);
                self.create_job("image-resize", &Arc::new(Template::new(outline)), (8, 72), None);
            }
            Beat::MaintenanceBegins => {
                if let Some(node) = self.node(LOST_NODE) {
                    self.cordon(node, true);
                    self.after(2 * SECOND, Due::Drain(node));
                }
            }
            Beat::Reboot => {
                if let Some(node) = self.node(LOST_NODE) {
                    self.reboot(node);
                }
            }
            Beat::PushBegins => self.push(true),
            Beat::MaintenanceEnds => {
                if let Some(node) = self.node(LOST_NODE) {
                    self.cordon(node, false);
                }
            }
            // The letter O instead of a zero.
            Beat::BadRollout => self.roll_out(BROKEN, "2.14.O", false),
            Beat::KubeletDies => {
                if let Some(node) = self.node(LOST_NODE) {
                    self.nodes[node].it.silent = true;
                }
            }
            Beat::NodeIsLost => {
                self.notes.lost_at = Some(self.log.now);
                if let Some(node) = self.node(LOST_NODE) {
                    self.lose(node);
                }
            }
            Beat::Overload => self.overload(),
            Beat::Rollback => {
                self.troubles.crash = None;
                self.roll_out(BROKEN, "2.13.4", true);
            }
            Beat::NodeReturns => {
                self.troubles.boot_seconds = 100;
                if let Some(node) = self.node(LOST_NODE) {
                    self.find(node);
                }
            }
            Beat::PushEnds => self.push(false),
        }
    }

    /// What the run has shown. What a run never showed is the bad moment itself.
    pub(super) fn story(&self, begin: Moment, end: Moment) -> Story {
        let at = |beat| begin.plus_nanos(time_of(beat) - 7 * 3_600 * SECOND);
        let bad_moment = at(Beat::NodeIsLost);
        let key = |group: &str, kind: &str, namespace: &str, name: &str| Key {
            source: super::SOURCE.into(),
            kind: Kind::new(group, kind),
            namespace: namespace.into(),
            name: name.into(),
        };
        let Notes { first_refusal, last_relief, unluckiest, .. } = &self.notes;
        let unlucky_pod = unluckiest.as_ref().map(|(_, key)| key.clone());
        Story {
            begin,
            end,
            push: at(Beat::PushBegins),
            bad_rollout: at(Beat::BadRollout),
            bad_moment,
            worst_from: first_refusal.unwrap_or(bad_moment),
            worst_to: last_relief.unwrap_or(bad_moment),
            rollback: at(Beat::Rollback),
            node_returns: at(Beat::NodeReturns),
            lost_node: key("", "Node", "", LOST_NODE),
            broken_deployment: key("apps", "Deployment", "web", BROKEN),
            unlucky_pod: unlucky_pod
                .expect("pods wait for the drained node, and it is lost three minutes later"),
        }
    }

    fn begin_canary(&mut self) {
        let Some(index) = self.deployment("recommendations") else { return };
        let mut outline = self.deployments[index].it.template.outline.clone();
        outline.app = "recommendations-canary".to_owned();
        outline.image = outline.image.replace("0.27.3", "0.28.0");
        outline.digest = self.log.chance.hex(64);
        self.create_deployment(Template::new(outline), 1);
    }

    /// Someone sets the version of a Deployment's image, whether or not a registry has it.
    fn roll_out(&mut self, name: &str, version: &str, exists: bool) {
        let Some(index) = self.deployment(name) else { return };
        let template = self.deployments[index].it.template.clone();
        let repository = template.outline.image.split(':').next().unwrap_or_default().to_owned();
        let image = format!("{repository}:{version}");
        // Going back is to the image that was there before.
        let known = self.sets.iter().find(|set| set.it.0.template.outline.image == image);
        let digest = match known {
            Some(set) => set.it.0.template.outline.digest.clone(),
            None if exists => self.log.chance.hex(64),
            None => String::new(),
        };
        let template = Arc::new(template.with_image(&image, digest));
        self.edit_deployment(index, |deployment| deployment.template = template);
    }

    /// Marketing sends twice the visitors, and someone raises the floor of the storefront.
    fn push(&mut self, on: bool) {
        self.troubles.surge = on;
        if on {
            // Everybody wants machines today.
            self.troubles.boot_seconds = 500;
        }
        for (scaler, _) in &mut self.scalers {
            if scaler.target == "storefront" {
                scaler.min = if on { 20 } else { 4 };
                self.log.publish(What::Modified, scaler);
            }
        }
    }

    /// What is left of the storefront cannot keep up, and what depends on the checkout falls over.
    fn overload(&mut self) {
        self.troubles.crash = Some("notifications");
        let ready: Vec<(PodId, bool)> = self
            .pods
            .iter()
            .filter(|(_, life)| life.pod.is_ready())
            .map(|(id, life)| (*id, &life.pod.template.outline))
            .filter(|(_, outline)| matches!(&*outline.app, "storefront" | "notifications"))
            .map(|(id, outline)| (id, outline.app == "storefront"))
            .collect();
        for (id, _) in ready.iter().filter(|(_, storefront)| *storefront).take(4) {
            let seconds = self.log.chance.between(70..=140);
            self.unready(*id, seconds);
        }
        for (id, _) in ready.iter().filter(|(_, storefront)| !storefront) {
            self.after(20 * SECOND, Due::Crash(*id));
        }
    }
}

/// What visitors ask of an app, in thousandths of a processor.
pub(super) fn load(app: &str, now: Moment, surge: bool) -> i64 {
    const WEEKDAY: [(i64, i64); 11] = [
        (0, 900),
        (5, 700),
        (7, 1_000),
        (9, 2_000),
        (11, 2_650),
        (13, 2_500),
        (15, 2_700),
        (17, 2_600),
        (19, 1_800),
        (21, 1_600),
        (24, 900),
    ];
    let minutes = now.nanos().div_euclid(60 * SECOND);
    let (days, minute) = (minutes.div_euclid(1_440), minutes.rem_euclid(1_440));
    let next = WEEKDAY.iter().position(|(hour, _)| hour * 60 > minute).unwrap_or(WEEKDAY.len() - 1).max(1);
    let ((hour, from), (later, to)) = (WEEKDAY[next - 1], WEEKDAY[next]);
    let usual = from + (to - from) * (minute - hour * 60) / ((later - hour) * 60);
    // 1970 began on a Thursday. Weekends are quiet.
    let usual = if (days + 3).rem_euclid(7) > 4 { usual / 2 } else { usual };
    // A twentieth up or down, another every minute.
    let noise = minutes.wrapping_mul(2_654_435_761).rem_euclid(1_009) % 101 - 50;
    let visitors = usual + usual * noise / 1_000 + if surge { 2_900 } else { 0 };
    if app == "search" { visitors * 45 / 100 } else { visitors }
}

/// Nanoseconds from midnight to a beat.
fn time_of(beat: Beat) -> i64 {
    let found = TIMES.iter().find(|(other, _)| *other == beat);
    let (_, [hour, minute, second]) = found.expect("every beat has its time");
    (hour * 3_600 + minute * 60 + second) * SECOND
}
