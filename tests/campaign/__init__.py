"""Bad inputs and faults by the thousand, against one oracle: a sentence, the right exit code, nothing harmed.

`python -m tests.campaign --cases 2000 --seed N` plays them all; the tests here play a slice.
"""
