import { randomUUID } from 'node:crypto'
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createPayingClient, type PayingClient } from '../../../infra/sandbox/paying-client.ts'
import { createPayer, type Payer } from '../../support/payer/payer.ts'
import { type SharedSandbox, useSharedSandbox } from '../../support/processes/test-sandbox.ts'

const SENT_AT_ONCE = 4

interface AllowanceAnswer {
  readonly allowance: string
  readonly transaction: `0x${string}`
  readonly block: number
}

let sandbox: SharedSandbox
let payer: Payer
let client: PayingClient
beforeAll(async () => {
  sandbox = await useSharedSandbox()
  const { rpcUrl, network } = sandbox.info
  payer = await createPayer(rpcUrl)
  client = createPayingClient({ privateKey: payer.privateKey, rpcUrl, network })
})
afterAll(() => sandbox.stop())

const chat = () => ({ model: 'textmodel-3.5-flash', messages: [{ role: 'user', content: 'Good evening.' }] })

function pay(): Promise<Response> {
  return client.fetch(`${sandbox.info.baseUrl}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', 'x-idempotency-key': randomUUID() },
    body: JSON.stringify(chat()),
  })
}

/** Where programs resolve the repository's packages. */
const PROGRAMS = fileURLToPath(new URL('../../../node_modules/.cache/farebox-readme', import.meta.url))

/** Runs the first program of the README as it stands there, and returns its variables. */
async function runReadmeProgram(variables: Record<string, string>): Promise<{ answer: { choices: unknown[] } }> {
  const readme = await readFile(new URL('../../../README.md', import.meta.url), 'utf8')
  const program = /```ts\n(?<program>[\s\S]*?)```/.exec(readme)?.groups?.['program'] ?? ''
  const given = Object.entries(variables).map(([name, value]) => `const ${name} = ${JSON.stringify(value)}`)
  const path = join(PROGRAMS, `${randomUUID()}.mjs`)
  await mkdir(PROGRAMS, { recursive: true })
  await writeFile(path, [...given, program, 'export { answer }'].join('\n'))
  try {
    return (await import(pathToFileURL(path).href)) as { answer: { choices: unknown[] } }
  } finally {
    await rm(path)
  }
}

describe('a lasting allowance', () => {
  it('the program of the README approves once and pays', async () => {
    const { rpcUrl, baseUrl } = sandbox.info
    const { privateKey, address } = await createPayer(rpcUrl)
    const { answer } = await runReadmeProgram({ key: privateKey, rpcUrl, baseUrl })
    expect(answer.choices).toHaveLength(1)
    expect(await sandbox.sql('SELECT state FROM sponsored_permits WHERE owner = $1', [address])).toEqual([
      { state: 'confirmed' },
    ])
    expect(await sandbox.sql('SELECT permit_nonce FROM authorizations WHERE payer = $1', [address])).toEqual([
      { permit_nonce: null },
    ])
  })

  it('one signature of a wallet without gas lets it pay in parallel, for one transaction of the service', async () => {
    const url = `${sandbox.info.baseUrl}/v1/allowances`
    const described = (await (await fetch(`${url}?owner=${payer.address}`)).json()) as {
      typed_data: { message: object }
    }
    const signature = await payer.account.signTypedData(described.typed_data as never)
    const approve = () =>
      fetch(url, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ permit: { ...described.typed_data.message, signature } }),
      })
    const answers = await Promise.all(Array.from({ length: SENT_AT_ONCE }, approve))
    const texts = await Promise.all(answers.map((answer) => answer.text()))
    expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 200])
    expect(new Set(texts).size).toBe(1)
    const { transaction, block, allowance } = JSON.parse(texts[0] ?? '') as AllowanceAnswer
    expect(await sandbox.chain.client.getTransactionReceipt({ hash: transaction })).toMatchObject({
      status: 'success',
      blockNumber: BigInt(block),
    })
    expect(await sandbox.chain.permit2Allowance(payer.address)).toBe(BigInt(allowance))

    const paid = await Promise.all(Array.from({ length: SENT_AT_ONCE }, pay))
    expect(paid.map(({ status }) => status)).toEqual([200, 200, 200, 200])
    // The same bytes, although the allowance has been used since.
    expect(await (await approve()).text()).toBe(texts[0])
    expect(await sandbox.sql('SELECT state FROM sponsored_permits WHERE owner = $1', [payer.address])).toEqual([
      { state: 'confirmed' },
    ])
    expect(await sandbox.chain.client.getBalance({ address: payer.address })).toBe(0n)
  })
})
