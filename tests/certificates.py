"""Certificates made for tests, by a program of the server's examples, which says what each file is. Used by the tests of encrypted connections."""

import subprocess

from rust_examples import built_example


def made_certificates(directory):
    """Makes them there."""
    subprocess.run([built_example("test_certificates", "server"), str(directory)], check=True, timeout=60)
    return directory
