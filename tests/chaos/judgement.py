"""What is wrong after all: pure functions from what was seen to complaints, so that a test can feed them what must be found (`test_judgement.py`)."""

import dataclasses

MEMORY_OVER_MAX = 1.15
SLOWER_MAX = 5
# Fewer operations have no p99 to speak of.
OPERATIONS_MIN = 200
# Between the server's clock and ours, and until a commit has the new time.
CLOCK_SLACK_SECONDS = 30


def percentile(latencies, share):
    """Of a list of seconds."""
    ordered = sorted(latencies)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def of_memory(peak_bytes, given_bytes):
    over = peak_bytes / given_bytes
    return [] if over <= MEMORY_OVER_MAX else [f"the server took {over:.2f} of its memory, {MEMORY_OVER_MAX} is allowed"]


def of_waiting(alone, beside):
    """How long the honest waited, in seconds, in spells without hostile clients and with them."""
    if min(len(alone), len(beside)) < OPERATIONS_MIN:
        return [f"only {len(alone)} operations alone and {len(beside)} beside the hostile succeeded: too few to compare"]
    slower = percentile(beside, 0.99) / percentile(alone, 0.99)
    if slower <= SLOWER_MAX:
        return []
    return [f"the honest waited {slower:.1f} times as long (p99) beside the hostile, {SLOWER_MAX} is allowed"]


def of_indexes(by_record, by_index, errors):
    """The versions that a scan finds, those that an index finds, and what `validate` says."""
    wrong = [] if sorted(by_index) == sorted(by_record) else ["the index on version finds other documents than the records"]
    return wrong + [f"validate: {error}" for error in errors]


@dataclasses.dataclass
class ServerTime:
    """The server's time (the newest commit's), which never goes back and follows the wall clock as far as that is believed."""

    # The furthest that a jump within the bound has set the clock ahead. Timestamps never go back, so it stays for good.
    followed_seconds: int = 0
    newest: int = 0

    def seen(self, server_seconds, real_seconds):
        wrong = []
        if server_seconds < self.newest:
            wrong.append(f"the server's time went back by {self.newest - server_seconds} s")
        ahead = server_seconds - real_seconds
        if ahead > self.followed_seconds + CLOCK_SLACK_SECONDS:
            wrong.append(f"the server's time is {ahead} s ahead; jumps of {self.followed_seconds} s at most were to be followed")
        self.newest = max(self.newest, server_seconds)
        return wrong

    def jumped(self, jump_seconds, server_seconds, real_seconds):
        """After a jump that is to be followed, and a write behind it."""
        self.followed_seconds = max(self.followed_seconds, jump_seconds)
        wrong = self.seen(server_seconds, real_seconds)
        if server_seconds - real_seconds < jump_seconds - CLOCK_SLACK_SECONDS:
            wrong.append(f"a jump of the clock of {jump_seconds} s was not followed: the server is {server_seconds - real_seconds} s ahead")
        return wrong
