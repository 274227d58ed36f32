"""Whether a history of transactions that append to lists can have come from strong session snapshot isolation.

The method is that of Elle (Kingsbury and Alvaro, VLDB 2020): every appended value is unique, so a list tells in which order its values were appended and a
read tells which appends it saw. From that follow the dependencies between transactions:

    ww  one appended right behind the other          wr  one read what the other appended last
    rw  one read the list as it was right before the other's append          so  one client ran the one and then the other

A history is one of snapshot isolation if and only if ((so or ww or wr) then at most one rw) has no cycle (Cerone, Bernardi, Gotsman, CONCUR 2015). So a write skew, a
cycle with two rw edges next to each other, is allowed; a lost update or a read of half a transaction is not.
"""

from collections import defaultdict
from dataclasses import dataclass, field

COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"


@dataclass(eq=False)
class Transaction:
    """What one client did, in order: ("append", key, value) and ("read", key, list)."""

    client: int
    number: int
    operations: list = field(default_factory=list)
    outcome: str = UNKNOWN

    def __repr__(self):
        return f"T{self.client}.{self.number}({self.outcome}: {self.operations})"

    def appended(self, key):
        return [value for kind, of, value in self.operations if kind == "append" and of == key]


def problems(transactions, final):
    """What is wrong with a history; `final` has each key's list at the end."""
    found = []
    writers = {}
    for transaction in transactions:
        for kind, key, value in transaction.operations:
            if kind == "append":
                writers[key, value] = transaction
    seen = {(key, value) for key, values in final.items() for value in values}
    for key, values in final.items():
        if len(set(values)) < len(values):
            found.append(f"{key} has a value twice: {values}")
        found.extend(f"{key} has {value}, which nobody appended" for value in values if (key, value) not in writers)
    for transaction in transactions:
        found.extend(_atomicity(transaction, seen))
    if found:
        return found
    # A commit whose reply was lost has happened if its appends are there.
    happened = [t for t in transactions if t.outcome == COMMITTED or _is_seen(t, seen)]
    for transaction in happened:
        found.extend(_reads(transaction, final, writers))
    return found or _cycles(happened, final, writers)


def _appends(transaction):
    return [(key, value) for kind, key, value in transaction.operations if kind == "append"]


def _is_seen(transaction, seen):
    appends = _appends(transaction)
    return bool(appends) and all(append in seen for append in appends)


def _atomicity(transaction, seen):
    appends = _appends(transaction)
    present = [append for append in appends if append in seen]
    if transaction.outcome == COMMITTED and len(present) < len(appends):
        return [f"{transaction} is committed, and of its appends only {present} are there"]
    if transaction.outcome == ABORTED and present:
        return [f"{transaction} is aborted, and {present} are there"]
    if present and len(present) < len(appends):
        return [f"half of {transaction} is there: {present}"]
    return []


def _reads(transaction, final, writers):
    """Every read is a prefix of the final list, ends where a transaction ended, and has the reader's own appends behind."""
    own = defaultdict(list)
    for kind, key, value in transaction.operations:
        if kind == "append":
            own[key].append(value)
            continue
        others = value[: len(value) - len(own[key])]
        if value[len(others):] != own[key]:
            yield f"{transaction} does not read its own appends {own[key]} in {value}"
        elif others != final.get(key, [])[: len(others)]:
            yield f"{transaction} reads {others} of {key}, which has become {final.get(key)}"
        elif others and writers[key, others[-1]].appended(key)[-1] != others[-1]:
            yield f"{transaction} reads {others} of {key}, in the midst of {writers[key, others[-1]]}"


def _cycles(transactions, final, writers):
    dependencies, antidependencies = defaultdict(set), defaultdict(set)
    happened = set(transactions)
    for values_of, values in final.items():
        for before, after in zip(values, values[1:]):
            _edge(dependencies, writers[values_of, before], writers[values_of, after])
    for reader in transactions:
        own = set(_appends(reader))
        for kind, key, value in reader.operations:
            if kind != "read":
                continue
            others = [item for item in value if (key, item) not in own]
            if others:
                _edge(dependencies, writers[key, others[-1]], reader)
            following = [item for item in final.get(key, [])[len(others):] if (key, item) not in own]
            if following:
                _edge(antidependencies, reader, writers[key, following[0]])
    last_of_client = {}
    for transaction in sorted(transactions, key=lambda t: (t.client, t.number)):
        if transaction.client in last_of_client:
            _edge(dependencies, last_of_client[transaction.client], transaction)
        last_of_client[transaction.client] = transaction
    steps = {t: set(dependencies[t]) for t in happened}
    for transaction in happened:
        for middle in dependencies[transaction]:
            # A transaction that comes back to itself by one rw edge is a cycle, too.
            steps[transaction] |= antidependencies[middle]
    cycle = _find_cycle(steps)
    return [f"not snapshot isolation: {' -> '.join(map(repr, cycle))}"] if cycle else []


def _edge(edges, one, other):
    if one is not other:
        edges[one].add(other)


def _find_cycle(steps):
    state, path = {}, []
    for start in steps:
        stack = [(start, None)]
        while stack:
            node, following = stack.pop()
            if following is None:
                if state.get(node) == "done":
                    continue
                state[node] = "open"
                path.append(node)
                following = iter(steps.get(node, ()))
            for other in following:
                if state.get(other) == "open":
                    return path[path.index(other):]
                if state.get(other) is None:
                    stack.append((node, following))
                    stack.append((other, None))
                    break
            else:
                state[node] = "done"
                path.pop()
    return None
