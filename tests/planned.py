"""Plans of suites that tests have changed by hand."""

from oodbench.running.plan import of_suite
from oodbench.running.request import request


def plan_of(suite, methods="msp", settings=(), set=(), seeds=(0,), results="nowhere", **more):
    asked = request(suite=suite.name, methods=methods, settings=settings, set=set, seeds=seeds, results=results, **more)
    return of_suite(asked, suite)
