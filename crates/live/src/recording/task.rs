//! The task of one watch: carries questions to the server and answers back, and tells what came of it.

use std::sync::Arc;
use std::time::Duration;

use model::Moment;
use rand::RngExt;
use rand_pcg::Pcg64;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::family::Family;
use super::{Desk, stopped};
use crate::news::{Event, KindStatus, State};
use crate::supervision::caught;
use crate::url::encoded;
use crate::watching::{Ask, Failure, Reply, Told, Watching};

pub(super) struct Task {
    desk: Arc<Desk>,
    family: Arc<Family>,
    /// Empty for all.
    namespace: String,
    watching: Watching,
    chance: Pcg64,
    /// Something went wrong since a watch was last opened.
    has_failed: bool,
    /// The server has no such kind.
    is_absent: bool,
    said: Option<(KindStatus, Moment)>,
    /// The first list has been told, or could not be.
    is_settled: bool,
}

/// Nobody listens any more.
struct Closed;

/// Of a watch, so many bytes are told together at most.
const TOGETHER: usize = 1 << 20;
/// How often figures that change are told.
const BETWEEN_NUMBERS: i64 = 5_000_000_000;
/// What is left to tell at the end must be taken within this time.
const FAREWELL: Duration = Duration::from_millis(500);

// === impl Task ===

impl Task {
    /// The task of a namespace, or with an empty name of all of them.
    pub(super) fn new(
        desk: Arc<Desk>,
        family: Arc<Family>,
        namespace: &str,
        watching: Watching,
        chance: Pcg64,
    ) -> Task {
        Task {
            namespace: namespace.to_owned(),
            watching,
            desk,
            family,
            chance,
            has_failed: false,
            is_absent: false,
            said: None,
            is_settled: false,
        }
    }

    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        tokio::select! {
            () = stopped(&mut stop) => {
                self.watching.stop(self.now());
                // If nobody takes it in time, it is as if the recorder had been killed: the position was not told either.
                let _ = timeout(FAREWELL, self.tell()).await;
            }
            Closed = self.supervise() => {}
        }
    }

    /// Works until nobody listens. After a panic everything is listed anew: what was being done then is not known.
    async fn supervise(&mut self) -> Closed {
        loop {
            let panic = match caught(self.work()).await {
                Ok(closed) => return closed,
                Err(panic) => panic,
            };
            let (now, chance) = (self.now(), self.chance.random());
            let wait = self.watching.broke(panic.to_string(), now, chance);
            if let Err(closed) = self.tell().await {
                return closed;
            }
            sleep(wait).await;
        }
    }

    async fn work(&mut self) -> Closed {
        let chance = self.chance.random();
        let mut ask = self.watching.ask(chance);
        loop {
            if let Err(closed) = self.tell().await {
                return closed;
            }
            if !self.is_settled && self.watching.state() != State::Listing {
                self.is_settled = true;
                self.desk.settled.add_permits(1);
            }
            let told = match ask {
                Ask::Wait(wait) => {
                    tokio::select! {
                        () = sleep(wait) => {}
                        () = self.family.found.notified(), if self.is_absent => {}
                    }
                    let chance = self.chance.random();
                    Ok(self.watching.ask(chance))
                }
                Ask::List { after, limit } => Ok(self.list(after, limit).await),
                Ask::Watch { from, seconds } => self.watch(&from, seconds).await,
            };
            ask = match told {
                Ok(ask) => ask,
                Err(closed) => return closed,
            };
        }
    }

    async fn list(&mut self, after: Option<String>, limit: u32) -> Ask {
        let after = after.map_or(String::new(), |mark| format!("&continue={}", encoded(&mark)));
        let desk = self.desk.clone();
        let _turn = desk.lists.acquire().await;
        let path = format!("{}limit={limit}{after}", self.address());
        match desk.connection.get(&path, "application/json").await {
            Ok(page) => self.hear(Reply::Page(&page)),
            Err(failure) => self.hear(Reply::Failed(failure)),
        }
        .unwrap_or_else(|| self.watching.ask(0.5))
    }

    async fn watch(&mut self, from: &str, seconds: u32) -> Result<Ask, Closed> {
        let path = format!(
            "{}watch=true&allowWatchBookmarks=true&resourceVersion={}&timeoutSeconds={seconds}",
            self.address(),
            encoded(from)
        );
        let mut lines = match self.desk.connection.lines(&path).await {
            Ok(lines) => lines,
            Err(failure) => {
                self.has_failed = true;
                return Ok(self.hear(Reply::Failed(failure)).unwrap_or_else(|| self.watching.ask(0.5)));
            }
        };
        if std::mem::take(&mut self.has_failed) {
            self.desk.reconnected.notify_one();
        }
        let mut next = self.hear(Reply::Opened);
        self.tell().await?;
        let mut gathered = 0;
        while next.is_none() {
            while next.is_none()
                && let Some(line) = lines.come()
            {
                gathered += line.len();
                // Not by `hear`, because of the line's loan.
                let now = (self.desk.clock)();
                next = self.watching.hear(Reply::Line(line), now, self.chance.random());
                if gathered >= TOGETHER {
                    self.tell().await?;
                    gathered = 0;
                }
            }
            if next.is_some() {
                break;
            }
            let has_news = !self.watching.untold().is_empty();
            let patience = self.watching.patience(seconds);
            // API servers send every event by itself. While nobody takes what is to be told, more of it gathers.
            tokio::select! {
                biased;
                told = self.tell(), if has_news => {
                    told?;
                    gathered = 0;
                }
                is_more = lines.wait(patience) => if !is_more {
                    self.has_failed = true;
                    next = self.hear(Reply::Ended);
                },
            }
        }
        Ok(next.unwrap_or_else(|| self.watching.ask(0.5)))
    }

    /// What begins every question.
    fn address(&mut self) -> String {
        let (path, api_version) = self.family.address(&self.namespace);
        self.watching.ask_in(api_version);
        path
    }

    fn hear(&mut self, reply: Reply<'_>) -> Option<Ask> {
        self.is_absent = matches!(&reply, Reply::Failed(Failure { status: Some(404), .. }));
        if self.is_absent {
            // It may be in another place now.
            self.desk.kinds_changed.notify_one();
        }
        let now = self.now();
        let chance = self.chance.random();
        self.watching.hear(reply, now, chance)
    }

    fn now(&self) -> Moment {
        (self.desk.clock)()
    }

    /// Tells what is new, and how it is getting on. It may be given up while it waits: nothing is lost then.
    async fn tell(&mut self) -> Result<(), Closed> {
        let now = self.now();
        let mut members = self.family.members.lock().await;
        let member = members.entry(self.namespace.clone()).or_default();
        member.state = Some(self.watching.state());
        member.objects = self.watching.objects();
        member.heard = self.watching.heard();
        let status = self.family.status(&members);
        if self.is_news(&status, now) {
            self.desk.out.send(Event::Status(status.clone())).await.map_err(|_| Closed)?;
            self.said = Some((status, now));
        }
        if self.watching.untold().is_empty() {
            return Ok(());
        }
        let place = self.desk.out.reserve().await.map_err(|_| Closed)?;
        let Told { mut news, troubles } = self.watching.take();
        if let Some((_, position)) = news.positions.first_mut() {
            members.entry(self.namespace.clone()).or_default().position = Some(position.clone());
            *position = self.family.joined(&members);
        }
        if *self.family.kind.kind == *"CustomResourceDefinition" && !news.changes.is_empty() {
            self.desk.kinds_changed.notify_one();
        }
        place.send(Event::News(news));
        for words in troubles {
            let trouble = Event::Trouble { kind: self.family.kind.clone(), words };
            self.desk.out.send(trouble).await.map_err(|_| Closed)?;
        }
        Ok(())
    }

    fn is_news(&self, status: &KindStatus, now: Moment) -> bool {
        self.said.as_ref().is_none_or(|(said, at)| {
            said.state != status.state
                // The clock may have been put back.
                || said != status && now.nanos_since(*at).abs() >= BETWEEN_NUMBERS
        })
    }
}
