#!/usr/bin/env bash
# @aws-sdk/client-s3 3.1169.0 (npm): a 502 whose body is nginx's HTML page is thrown as an error that is no
# S3ServiceException, whose name and message speak of tags; the status stands only in `$metadata`.
# Guess: a 502 is an S3ServiceException named by its status, whatever the body, as it is with an empty one.
# Seen on 2026-11-28: HTML: Error, instance false, metadata 502; empty body: instance true.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --prefix . --silent --no-audit --no-fund --ignore-scripts @aws-sdk/client-s3@3.1169.0 >/dev/null

cat >expected <<'EXPECTED'
page: Error, S3ServiceException false, status 502
@aws-sdk XML parse error: mismatched tags <hr> and </body>.
empty: Unknown, S3ServiceException true, status 502
EXPECTED
node --input-type=module >seen <<'PROGRAM'
import { ListObjectsV2Command, S3Client, S3ServiceException } from '@aws-sdk/client-s3'
import { createServer } from 'node:http'

const title = '<title>502 Bad Gateway</title>'
const page = `<html>\r\n<head>${title}</head>\r\n<body>\r\n<center>away</center>\r\n<hr></body>\r\n</html>\r\n`
let body
const server = createServer((_, response) => response.writeHead(502, { 'content-type': 'text/html' }).end(body))
server.listen(0, '127.0.0.1', async () => {
  const endpoint = `http://127.0.0.1:${server.address().port}`
  const credentials = { accessKeyId: 'none', secretAccessKey: 'none' }
  const client = new S3Client({ endpoint, credentials, region: 'any', forcePathStyle: true, maxAttempts: 1 })
  for (const [name, text] of [['page', page], ['empty', '']]) {
    body = text
    const error = await client.send(new ListObjectsV2Command({ Bucket: 'files' })).catch((reason) => reason)
    const known = error instanceof S3ServiceException
    console.log(`${name}: ${error.name}, S3ServiceException ${known}, status ${error.$metadata?.httpStatusCode}`)
    if (!known) console.log(error.message.split('\n')[0])
  }
  process.exit()
})
PROGRAM

diff --label expected --label seen -u expected seen
cat seen
