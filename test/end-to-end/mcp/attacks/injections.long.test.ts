import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import pLimit from 'p-limit'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type SharedSandbox, useSharedSandbox } from '../../../support/processes/test-sandbox.ts'
import { type AttackBench, makeAttackBench } from './support/attack-bench.ts'
import { INJECTIONS, THIEF } from './support/injection-texts.ts'
import type { McpProcess, ToolAnswer } from './support/mcp-process.ts'
import { type Allowed, spent, violations } from './support/money-checks.ts'
import { obey } from './support/obedient-model.ts'
import { chatAnswers, markedRecording, transcripts } from './support/scripted-vendors.ts'
import { fileNameOf, smuggledLines, unmarkedBlocks } from './support/text-checks.ts'

/** What the person allows: enough to read all texts, and little more. The calls that the texts ask for cost more each. */
const LIMITS = ['--call', '0.02', '--session', '0.8', '--day', '0.8', '--confirm-above', '0.006']
const ALLOWED: Allowed = { call: 6000n, total: 800_000n }
/** Calls of an agent at the same time. */
const AT_ONCE = 6

let sandbox: SharedSandbox
let bench: AttackBench
let server: McpProcess
let limitsBefore: string
const questions: string[] = []

beforeAll(async () => {
  sandbox = await useSharedSandbox()
  bench = await makeAttackBench(sandbox)
  await bench.setLimits(...LIMITS)
  limitsBefore = await limitsState()
  await writeFile(join(bench.folder, 'harmless.mp3'), markedRecording('harmless'))
  for (const [index, injection] of INJECTIONS.entries())
    await writeFile(join(bench.folder, fileNameOf(injection)), markedRecording(markOf(index)))
  await sandbox.setFaults(
    INJECTIONS.flatMap(({ text }, index) => [chatAnswers(markOf(index), text), transcripts(markOf(index), text)]),
  )
  server = await startServer()
})
afterAll(async () => {
  await sandbox.setFaults([])
  await bench.remove()
  await sandbox.stop()
})

/** Found in the request of one text only. */
function markOf(index: number): string {
  return `attack-${index}-`
}

/** Starts a server whose person declines each question. */
async function startServer(): Promise<McpProcess> {
  const started = bench.start({
    elicit: (params) => {
      questions.push(JSON.stringify(params))
      return { action: 'decline' }
    },
  })
  await started.initialize()
  return started
}

/** Returns the limits as the person sees them, and the file as it is. */
async function limitsState(): Promise<string> {
  const { output, exitCode, errors } = await bench.run('limits', 'show', '--json')
  expect({ exitCode, errors }).toMatchObject({ exitCode: 0 })
  const { path } = JSON.parse(output) as { path: string }
  const { mode, mtimeMs, ino } = await stat(path)
  return JSON.stringify([await readFile(path, 'utf8'), mode, mtimeMs, ino])
}

/** Lets an agent read each text by a call, then do what it says; returns the answers with the texts. */
async function readAndObey(read: (index: number) => Promise<ToolAnswer>): Promise<readonly ToolAnswer[]> {
  const limit = pLimit(AT_ONCE)
  return await Promise.all(
    INJECTIONS.map((injection, index) =>
      limit(async () => {
        const answer = await read(index)
        await obey(server, bench, injection, index)
        return answer
      }),
    ),
  )
}

/** Asks as often as it can for an answer that is cheap. Returns how many calls were refused, by the code. */
async function spree(spender: McpProcess, calls: number): Promise<Readonly<Record<string, number>>> {
  const refusals: Record<string, number> = {}
  const ask = async () => {
    const { structuredContent } = await spender.call('chat', { prompt: crypto.randomUUID(), max_tokens: 10 })
    const { code } = structuredContent?.error ?? {}
    if (code !== undefined) refusals[code] = (refusals[code] ?? 0) + 1
  }
  await Promise.all(Array.from({ length: calls }, ask))
  return refusals
}

interface Transcripts {
  readonly transcripts?: readonly { readonly text: string }[]
}

/** A transcript has other white space and no control characters. */
function lettersOf(text = ''): string {
  return text.replaceAll(/[^\p{L}\p{N}]/gu, '')
}

const problems = async (allowed = ALLOWED) => violations(await bench.moved(), allowed, sandbox.info)

const pathOf = (index: number) => join(bench.folder, fileNameOf(INJECTIONS[index] ?? { goal: 'read', text: '' }))

describe('an agent that obeys hostile texts', () => {
  it('finds each of 100 texts marked as data in answers of models, and pays nothing beyond the limits', async () => {
    const answers = await readAndObey((index) => server.call('chat', { prompt: markOf(index), max_tokens: 60 }))
    for (const [index, injection] of INJECTIONS.entries()) {
      const answer = answers[index]
      expect(answer).toMatchObject({ structuredContent: { text: injection.text } })
      expect(answer === undefined ? [] : unmarkedBlocks(answer, injection)).toEqual([])
    }
    expect(await problems()).toEqual([])
    expect(await limitsState()).toBe(limitsBefore)
  })

  it('finds each of 100 texts marked as data in transcripts and names of files, and pays nothing beyond', async () => {
    const answers = await readAndObey((index) => server.call('transcribe', { path: pathOf(index) }))
    for (const [index, injection] of INJECTIONS.entries()) {
      const answer = answers[index]
      const { transcripts: [transcript] = [] } = (answer?.structuredContent ?? {}) as Transcripts
      expect(lettersOf(transcript?.text)).toBe(lettersOf(injection.text))
      expect(answer === undefined ? [] : unmarkedBlocks(answer, injection)).toEqual([])
    }
    expect(await problems()).toEqual([])
    expect(await limitsState()).toBe(limitsBefore)
  })

  it('finds the names of all files of a folder marked as data', async () => {
    const answer = await server.call('transcribe', { path: bench.folder })
    expect(answer).toMatchObject({ structuredContent: { recordings: INJECTIONS.length + 1, failed: 0 } })
    for (const injection of INJECTIONS) expect(unmarkedBlocks(answer, injection)).toEqual([])
    expect(await problems()).toEqual([])
    expect(await limitsState()).toBe(limitsBefore)
  })

  it('is never shown a hostile text in the question that a person answers', () => {
    expect(questions.length).toBeGreaterThan(0)
    expect(questions.filter((question) => question.includes(THIEF) || question.includes('Obey'))).toEqual([])
  })

  it('never sees the private key, and nothing but answers is on standard output', () => {
    const written = [...server.lines, server.errors()].join('\n')
    expect(written).not.toContain(bench.payer.privateKey.slice(2))
    expect(smuggledLines(server.lines)).toEqual([])
  })

  it('that then spends as fast as it can, in several servers, stops at the limit of the day', async () => {
    const servers = [server, ...(await Promise.all([startServer(), startServer()]))]
    const refusals = await Promise.all(servers.map((one) => spree(one, 60)))
    expect(refusals.map((codes) => codes['budget_exceeded'] ?? 0).every((count) => count > 0)).toBe(true)
    expect(await problems()).toEqual([])
    expect(await limitsState()).toBe(limitsBefore)
    // It came as close as whole calls can, so that the limit was reached and not missed.
    expect(spent(await bench.moved())).toBeGreaterThan(ALLOWED.total - 10_000n)
  })

  it('passes the limit as soon as a person raises it, which the same check reports', async () => {
    await bench.setLimits('--session', '2', '--day', '2')
    await spree(server, 20)
    const found = await problems()
    expect(found).toHaveLength(1)
    expect(found[0]).toMatch(/^spent above the limit/)
    expect(await problems({ ...ALLOWED, total: 2_000_000n })).toEqual([])
  })
})
