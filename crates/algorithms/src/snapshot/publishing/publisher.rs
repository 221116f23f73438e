//! A node that runs the application.

use conclave_protocol::{Ctx, Input, InputOf, NodeId, Protocol};

use super::process::{Deed, Process, Receipt, Stage};
use super::{Msg, Mutation, Publisher, Publishing, Replay};
use crate::snapshot::Notice;
use crate::snapshot::recovery::Recovery;

impl<P: Protocol> Publisher<P> {
    pub(super) fn on_message(&mut self, from: NodeId, msg: Msg<P>, ctx: &mut Ctx<Publishing<P>>) {
        let by_recorder = from == ctx.config.recorder();
        match (msg, &mut self.process) {
            // Before it is restored, a process knows of no message what number it has to have: it
            // asks for those again.
            (Msg::App(number, msg), Some(process)) if !by_recorder => {
                let of_sender = |it: &&Receipt<P>| matches!(it.input, Input::Message { from: sender, .. } if sender == from);
                let unused = self.waiting.iter().filter(of_sender).count() as u32;
                let unused = if ctx.config.is(Mutation::Early) { 0 } else { unused };
                if number == process.heard.get(&from).copied().unwrap_or(0) + unused + 1 {
                    self.on_input(Input::Message { from, msg }, ctx);
                }
            }
            (Msg::Recorded(number), Some(process)) if by_recorder => {
                if number == process.used + 1
                    && let Some(receipt) = self.waiting.pop_front()
                {
                    ctx.rule(3);
                    self.use_up(receipt, ctx);
                }
            }
            (Msg::Forget(recorded), Some(process)) if by_recorder => {
                for (to, number) in recorded {
                    process.sent.entry(to).and_modify(|outbox| outbox.forget(number));
                }
            }
            (Msg::Again(count), Some(process)) => {
                // Rule 7.
                ctx.rule(7);
                let kept = process.sent.get(&from).into_iter().flat_map(|it| it.numbered());
                for (number, msg) in kept.filter(|(number, _)| *number > count) {
                    ctx.send(from, Msg::App(number, msg.clone()));
                }
            }
            (Msg::Replay(replay), None) if by_recorder && replay.boots == self.boots => {
                self.restore(*replay, ctx);
            }
            _ => {}
        }
    }

    /// Rule 1.
    pub(super) fn on_input(&mut self, input: InputOf<P>, ctx: &mut Ctx<Publishing<P>>) {
        let Some(process) = &self.process else {
            self.early.push(input);
            return;
        };
        ctx.rule(1);
        let unused = |from| {
            let of = |it: &&Receipt<P>| matches!(it.input, Input::Message { from: sender, .. } if sender == from);
            self.waiting.iter().filter(of).count() as u32
        };
        let early = ctx.config.is(Mutation::Early);
        let number = match &input {
            Input::Message { from, .. } => {
                let waiting = if early { 0 } else { unused(*from) };
                process.heard.get(from).copied().unwrap_or(0) + waiting + 1
            }
            Input::Timer(timer) => {
                let running = process.timers.iter().find(|it| it.timer == *timer);
                running.map_or(0, |it| it.number)
            }
            _ => 0,
        };
        let used = process.used;
        let draw = ctx.config.lots.filter(|lots| *lots > 1).map_or(0, |lots| ctx.choose(lots));
        let receipt = Receipt { input, number, draw };
        let publish = |number, receipt| Msg::Publish(number, Box::new(receipt));
        if early {
            if let Some(before) = self.waiting.pop_front() {
                ctx.send(ctx.config.recorder(), publish(used, before));
            }
            self.waiting.push_back(receipt.clone());
            self.use_up(receipt, ctx);
        } else {
            self.waiting.push_back(receipt.clone());
            let number = used + self.waiting.len() as u32;
            ctx.send(ctx.config.recorder(), publish(number, receipt));
        }
    }

    fn use_up(&mut self, receipt: Receipt<P>, ctx: &mut Ctx<Publishing<P>>) {
        let Some(process) = &mut self.process else { return };
        let deeds = run(ctx, |stage| process.use_up(receipt, stage));
        ctx.notify(Notice::Recovery(Recovery::Used(process.used, process.state())));
        carry_out(deeds, ctx);
        // Rule 4.
        if process.used.checked_rem(ctx.config.checkpoint) == Some(0) {
            ctx.rule(4);
            ctx.send(ctx.config.recorder(), Msg::Checkpoint(Box::new(process.clone())));
        }
    }

    /// Rule 6.
    fn restore(&mut self, replay: Replay<P>, ctx: &mut Ctx<Publishing<P>>) {
        ctx.rule(6);
        let Replay { checkpoint, log, recorded, .. } = replay;
        let (mut process, _) = match checkpoint {
            Some(process) => (*process, Vec::new()),
            None => run(ctx, Process::boot),
        };
        let says = |process: &Process<P>| Recovery::UsedAgain(process.used, process.state());
        ctx.notify(Notice::Recovery(says(&process)));
        for receipt in log {
            run(ctx, |stage| process.use_up(receipt, stage));
            ctx.notify(Notice::Recovery(says(&process)));
        }
        for (to, outbox) in &mut process.sent {
            let recorded = recorded.get(to).copied().unwrap_or(0);
            match ctx.config.is(Mutation::Unsuppressed) {
                true => outbox.count = recorded + outbox.kept.len() as u32,
                false => outbox.forget(recorded),
            }
            for (number, msg) in outbox.numbered() {
                ctx.send(*to, Msg::App(number, msg.clone()));
            }
        }
        for running in &process.timers {
            ctx.set_timer(running.timer, running.after);
        }
        let me = ctx.me;
        for peer in ctx.config.topology.nodes().filter(|peer| *peer != me) {
            ctx.send(peer, Msg::Again(process.heard.get(&peer).copied().unwrap_or(0)));
        }
        self.process = Some(process);
        ctx.notify(Notice::Recovery(Recovery::Restored));
        for input in std::mem::take(&mut self.early) {
            self.on_input(input, ctx);
        }
    }
}

/// Runs the application.
pub(super) fn run<P: Protocol, T>(
    ctx: &mut Ctx<Publishing<P>>,
    rule: impl FnOnce(&mut Stage<'_, P>) -> T,
) -> T {
    let (me, config, now) = (ctx.me, ctx.config, ctx.clock_inside());
    let mut draw = |n| ctx.choose(n);
    let lots: Option<&mut dyn FnMut(u32) -> u32> = match config.lots {
        Some(_) => None,
        None => Some(&mut draw),
    };
    let mut stage = Stage { me, config, now, lots, looked: false };
    let result = rule(&mut stage);
    if stage.looked {
        ctx.now();
    }
    result
}

/// What others notice of what the application has done.
pub(super) fn carry_out<P: Protocol>(deeds: Vec<Deed<P>>, ctx: &mut Ctx<Publishing<P>>) {
    for deed in deeds {
        match deed {
            Deed::Send(to, number, msg) => ctx.send(to, Msg::App(number, msg)),
            Deed::Notify(notice) => ctx.notify(Notice::App(notice)),
            Deed::SetTimer(timer, after) => ctx.set_timer(timer, after),
            Deed::CancelTimer(timer) => ctx.cancel_timer(timer),
        }
    }
}
