"""The checker of registers: against all orders of small histories, and by hand."""

import itertools
import random

from linearizability import INITIAL, Operation, complaints


def write(value, begin, end):
    return Operation(True, value, begin, end)


def read(value, begin, end):
    return Operation(False, value, begin, end)


def test_what_an_order_explains_is_no_complaint():
    assert complaints([]) == []
    assert complaints([write(1, 0, 1), read(1, 2, 3), write(2, 4, 9), read(1, 5, 6), read(2, 7, 8)]) == []
    # Nobody knows whether it was written, and somebody has seen that it was not.
    assert complaints([write(1, 0, float("inf")), read(None, 5, 6)]) == []
    assert complaints([write(1, 0, float("inf")), read(None, 5, 6), read(1, 7, 8)]) == []


def test_what_none_explains_is_one():
    assert complaints([read(1, 0, 1)])
    assert complaints([write(1, 2, 3), read(1, 0, 1)])
    assert complaints([write(1, 0, 1), read(None, 2, 3)]), "a stale read"
    assert complaints([write(1, 0, 9), read(1, 1, 2), read(None, 3, 4)]), "seen, and gone again"
    assert complaints([write(1, 0, float("inf")), read(1, 1, 2), read(None, 3, 4)]), "an unconfirmed write was seen and undone"
    assert complaints([write(1, 0, 1), write(2, 2, 3), read(1, 4, 5)]), "a lost write"


def has_order(operations):
    """By trying all orders."""
    known = [one for one in operations if not one.is_write or one.end != float("inf")]
    maybe = [one for one in operations if one.is_write and one.end == float("inf")]
    for count in range(len(maybe) + 1):
        for chosen in itertools.combinations(maybe, count):
            if any(explains(order) for order in itertools.permutations([*known, *chosen])):
                return True
    return False


def explains(order):
    value = INITIAL.value
    for place, operation in enumerate(order):
        if any(later.end < operation.begin for later in order[place + 1 :]):
            return False
        if operation.is_write:
            value = operation.value
        elif operation.value != value:
            return False
    return True


def test_it_says_what_trying_all_orders_says():
    source, verdicts = random.Random(7), [0, 0]
    for _ in range(3000):
        values, operations = [None], []
        moments = list(range(2 * source.randint(1, 6)))
        source.shuffle(moments)
        for one, other in zip(moments[::2], moments[1::2]):
            begin, end = sorted((one, other))
            if source.random() < 0.5:
                values.append(len(values))
                operations.append(write(values[-1], begin, end if source.random() < 0.7 else float("inf")))
            else:
                operations.append((begin, end))
        operations = [one if isinstance(one, Operation) else read(source.choice(values), *one) for one in operations]
        expected = has_order(operations)
        verdicts[expected] += 1
        assert (complaints(operations) == []) == expected, operations
    assert min(verdicts) > 300, verdicts
