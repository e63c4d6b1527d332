"""Posts a JSON body with one of Python's HTTP clients and prints status, header and text as JSON.

usage: call-once.fixture.py CLIENT URL TIMEOUT, with {"headers", "body"} on standard input; TIMEOUT "default" is the client's.
"""
import asyncio
import json
import sys
import urllib.error
import urllib.request

client, url, timeout = sys.argv[1:]
given = json.load(sys.stdin)
headers = {"content-type": "application/json", **given["headers"]}
body = json.dumps(given["body"]).encode()
limit = {} if timeout == "default" else {"timeout": float(timeout)}


def by_requests():
    import requests

    answer = requests.post(url, data=body, headers=headers, **limit)
    return answer.status_code, answer.headers, answer.text


def by_httpx():
    import httpx

    answer = httpx.post(url, content=body, headers=headers, **limit)
    return answer.status_code, answer.headers, answer.text


def by_aiohttp():
    import aiohttp

    async def post():
        options = {"timeout": aiohttp.ClientTimeout(total=limit["timeout"])} if limit else {}
        async with aiohttp.ClientSession(**options) as session:
            async with session.post(url, data=body, headers=headers) as answer:
                return answer.status, answer.headers, await answer.text()

    return asyncio.run(post())


def by_urllib():
    request = urllib.request.Request(url, data=body, headers=headers)
    try:
        with urllib.request.urlopen(request, **limit) as answer:
            return answer.status, answer.headers, answer.read().decode()
    except urllib.error.HTTPError as answer:
        return answer.code, answer.headers, answer.read().decode()


calls = {"requests": by_requests, "httpx": by_httpx, "aiohttp": by_aiohttp, "urllib": by_urllib}
try:
    status, received, text = calls[client]()
    print(json.dumps({"status": status, "challenge": received.get("payment-required"), "text": text}))
except Exception as error:
    print(json.dumps({"status": 0, "challenge": None, "text": f"{type(error).__name__}: {error}"}))
