"""What a call costs, next to langchain-google-genai, the bare SDK and bare HTTP: `make bench`.

run.py        the whole measurement: start reading here
scenarios.py  what is measured, and what the numbers have to reach
workload.py   messages, tools, replies, and the bodies that have to be sent for them
stub.py       a fast server of canned replies, in a process of its own
subjects/     the five ways to make the same call
worker.py     one subject in a process of its own: does a scenario again and again, counts CPU
checking.py   whether what was sent means the same
start_up.py   imports, and the first call of a process
memory.py     copies of a large image, growth over thousands of calls
report.py     ratios, table, JSON
picture.py    the loop's cost against its turns, as SVG
"""
