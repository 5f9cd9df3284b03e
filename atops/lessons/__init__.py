"""Lessons: tasks whose solutions are judged by values, schedules, the detectors and virtual time.

`python -m atops learn` lists those that come with atops. One of your own:

    lesson = Lesson("Add one", program, cases=[(5,), (24,)], hints=("What is the last index?",))
    lesson.check(task)

lesson     `Lesson`: a task and its judge; `Question`: one whose answer is a schedule; what a run has done
verdict    what the judge says
source     lessons as files: the learner's copy, the judge, the solution
apart      runs that leave nothing to the next one, and come to an end
learner    lessons by name, and what a learner has passed
grading    a learner's file judged, in a process of its own
"""

from atops.lessons.learner import open_lesson
from atops.lessons.lesson import Lesson, Question, commands, given, nanoseconds
from atops.lessons.verdict import Verdict

__all__ = ("Lesson", "Question", "Verdict", "commands", "given", "nanoseconds", "open_lesson")
