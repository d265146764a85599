"""Batch jobs: many requests at half the price, answered within a day.

job.py       BatchJob: waiting and results, sync and async. Start reading here
worker.py    its steps: prepare the requests, create the jobs, collect results, send what follows
service.py   the API's operations: create without creating twice, poll, upload, download
vertex.py    the same on Vertex AI, where requests and results are files in a bucket
folder.py    what is kept on disk: the requests, the jobs, the results
items.py     one input: its responses -> its result, or the request that follows; callbacks

A job's folder is its only state. Everything in it is written to a temporary file first and then
renamed, so a process that is killed leaves the old state or the new one.

Agents in waves of batch jobs:

agents.py        run_in_batches: its arguments and results. Start reading here
driver.py        runs all agents, wave after wave
graph_runner.py  one LangGraph agent, from one call of its model to the next
loop_runner.py   the same for a ToolLoop
waves.py         what the agents wait for, sent together; what is kept of it on disk
items.py         a call of the model inside such an agent: `ask_in_batches`
"""

from langchain_gemini_tools.batch.items import BatchSource
from langchain_gemini_tools.batch.job import BatchJob, BatchStatus

__all__ = ["BatchJob", "BatchSource", "BatchStatus"]
