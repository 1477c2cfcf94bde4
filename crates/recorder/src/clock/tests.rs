use super::*;

const SECOND: i64 = 1_000_000_000;
const HOUR: i64 = 3600 * SECOND;
const YEAR: i64 = 365 * 24 * HOUR;

/// Simulated clocks.
struct SimulatedMachine {
    state: ClockState,
    true_time: i64,
    elapsed: i64,
    slept: i64,
    /// The errors of the wall clock and of the server's clock.
    wall_error: i64,
    server_error: i64,
}

impl SimulatedMachine {
    /// A machine whose clock has this error at the start; the server's clock is right.
    fn start(wall_error: i64) -> SimulatedMachine {
        let true_time = Moment::from_nanos(1_800_000_000 * SECOND);
        let wall = true_time.plus_nanos(wall_error);
        let mut state = ClockState::new(wall, Some(true_time));
        state.suspended_nanos = Some(0);
        SimulatedMachine {
            state,
            true_time: true_time.nanos(),
            elapsed: 0,
            slept: 0,
            wall_error,
            server_error: 0,
        }
    }

    fn run(&mut self, seconds: i64) -> i64 {
        self.true_time += seconds * SECOND;
        self.elapsed += seconds * SECOND;
        self.read()
    }

    fn sleep(&mut self, nanos: i64) -> i64 {
        self.true_time += nanos;
        self.slept += nanos;
        self.read()
    }

    /// The error of the recording's clock.
    fn read(&mut self) -> i64 {
        let (wall, slept) = (Moment::from_nanos(self.true_time + self.wall_error), self.slept);
        let reading = self.state.read(wall, self.elapsed(), || Some(slept));
        reading.nanos() - self.true_time
    }

    /// Compares with the server's time, if it answers.
    fn compare_with_server(&mut self, answers: bool) {
        let elapsed = self.elapsed();
        let date = (Moment::from_nanos(self.true_time + self.server_error), elapsed);
        self.state.accept_if_confirmed(answers.then_some(date), elapsed);
    }

    fn elapsed(&self) -> Duration {
        Duration::from_nanos(self.elapsed.cast_unsigned())
    }

    fn step_reasons(&mut self) -> Vec<String> {
        self.state.steps.drain(..).map(|step| step.why).collect()
    }
}

#[test]
fn a_clock_that_is_slewed_is_followed() {
    let mut machine = SimulatedMachine::start(0);
    for second in 0..1000 {
        // A tenth of a second per second is 200 times the usual slew rate.
        machine.wall_error = second * SECOND / 10;
        assert_eq!(machine.run(1), machine.wall_error);
    }
    assert_eq!(machine.step_reasons(), Vec::<String>::new());
    assert!(machine.state.is_stable_for(Duration::from_secs(1), machine.elapsed()));
}

#[test]
fn one_wrong_reading_changes_nothing() {
    for (error, there, back) in [
        (10 * YEAR, "forward by 10y", "back by 10y"),
        (-50 * YEAR, "back by 50y", "forward by 50y"),
        (60 * SECOND, "forward by 60s", "back by 60s"),
    ] {
        let mut machine = SimulatedMachine::start(0);
        machine.run(60);
        machine.wall_error = error;
        // For any duration.
        for _ in 0..100 {
            assert_eq!(machine.run(60), 0);
            machine.compare_with_server(true);
            assert!(!machine.state.is_stable_for(Duration::ZERO, machine.elapsed()));
        }
        assert_eq!(machine.step_reasons(), [format!("the clock was set {there}")]);
        machine.wall_error = 0;
        assert_eq!(machine.run(60), 0);
        assert_eq!(machine.step_reasons(), [format!("the clock was set {back}")]);
        assert!(!machine.state.is_stable_for(Duration::from_secs(600), machine.elapsed()));
        machine.run(600);
        assert!(machine.state.is_stable_for(Duration::from_secs(600), machine.elapsed()));
    }
}

#[test]
fn a_clock_that_was_wrong_before_it_was_set_is_eventually_accepted() {
    // Too little to be noticed at the start.
    for (error, why) in [(-240 * SECOND, "forward by 4m"), (240 * SECOND, "back by 4m")] {
        let mut machine = SimulatedMachine::start(error);
        assert_eq!(machine.run(60), error);
        machine.wall_error = 0;
        assert_eq!(machine.run(60), error);
        machine.compare_with_server(true);
        assert_eq!(machine.run(60), error);
        machine.run(600);
        machine.compare_with_server(true);
        assert_eq!(machine.run(1), 0);
        let steps = std::mem::take(&mut machine.state.steps);
        assert_eq!(steps[0].why, format!("the clock was set {why}"));
        assert_eq!(steps[1].why, format!("the clock, set {why} 11m ago, is used from now on"));
        assert_eq!(steps[1].to.nanos_since(steps[1].from), error.abs());
        assert!(!machine.state.is_stable_for(Duration::from_secs(60), machine.elapsed()));
    }
}

#[test]
fn a_clock_that_no_server_confirms_is_not_accepted() {
    let mut machine = SimulatedMachine::start(0);
    machine.wall_error = HOUR;
    for _ in 0..1000 {
        assert_eq!(machine.run(60), 0);
        machine.compare_with_server(false);
    }
    // As where the server runs on the same machine.
    machine.server_error = HOUR;
    machine.compare_with_server(true);
    assert_eq!(machine.run(1), HOUR);
    // Set back again: timestamps go back, and changes take effect at the end of the history until then.
    (machine.wall_error, machine.server_error) = (0, 0);
    machine.run(1);
    machine.run(600);
    machine.compare_with_server(true);
    assert_eq!(machine.run(1), 0);
    let last = machine.state.steps.pop().unwrap();
    assert_eq!(last.to.nanos_since(last.from), HOUR);
}

#[test]
fn a_clock_that_is_wrong_at_the_start_is_not_accepted() {
    for (error, why) in [(10 * YEAR, "10y ahead of"), (-50 * YEAR, "50y behind")] {
        let mut machine = SimulatedMachine::start(error);
        for _ in 0..100 {
            assert_eq!(machine.run(60), 0);
            machine.compare_with_server(false);
        }
        assert_eq!(
            machine.step_reasons(),
            [format!("the clock is {why} the API server's: the server's time is used")]
        );
        machine.wall_error = 0;
        assert_eq!(machine.run(1), 0);
        assert_eq!(machine.step_reasons().len(), 1);
    }
}

#[test]
fn time_continues_immediately_after_a_suspension() {
    let mut machine = SimulatedMachine::start(0);
    machine.run(60);
    let before = machine.state.last;
    assert_eq!(machine.sleep(8 * HOUR), 0);
    let step = machine.state.steps.pop().unwrap();
    assert_eq!((step.from, step.to.nanos_since(step.from)), (before, 8 * HOUR));
    assert_eq!(step.why, "the machine was suspended for 8h");
    assert!(machine.state.is_stable_for(Duration::from_secs(60), machine.elapsed()));
    // A machine that resumes with a wrong clock, and one with a wrong clock that was suspended.
    machine.wall_error = 10 * YEAR;
    assert_eq!(machine.run(1), 0);
    machine.step_reasons();
    assert_eq!(machine.sleep(HOUR), 0);
    assert_eq!(machine.step_reasons(), ["the machine was suspended for 60m"]);
    assert_eq!(machine.run(60), 0);
    assert_eq!(machine.step_reasons(), Vec::<String>::new());
}
