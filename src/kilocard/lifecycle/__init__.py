"""How engines come, go and change: pure rules over slots, which the supervisor carries out."""

from kilocard.lifecycle.canary import CanaryRule, Served, Verdict, judge
from kilocard.lifecycle.change import Change, Stage, advance, propose, wanted
from kilocard.lifecycle.roll import RollRule, batch_size, due_again, due_by_age, let_go, may_leave
from kilocard.lifecycle.slot import Order, Phase, Rules, Seen, Slot
from kilocard.lifecycle.step import back_off_s, step

__all__ = [
    "CanaryRule",
    "Change",
    "Order",
    "Phase",
    "RollRule",
    "Rules",
    "Seen",
    "Served",
    "Slot",
    "Stage",
    "Verdict",
    "advance",
    "back_off_s",
    "batch_size",
    "due_again",
    "due_by_age",
    "judge",
    "let_go",
    "may_leave",
    "propose",
    "step",
    "wanted",
]
