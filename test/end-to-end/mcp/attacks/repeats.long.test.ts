import { describe, expect, it } from 'vitest'
import { useChargeBench } from './support/charge-bench.ts'
import type { ToolAnswer } from './support/mcp-process.ts'
import { bytesOf, PAID_TOOLS } from './support/paid-tools.ts'

const used = useChargeBench()

describe.each(PAID_TOOLS)('$name', ({ name, args }) => {
  it('repeated 50 times, at once, in turn and in other processes, is charged once, with equal bytes', async () => {
    const call = { ...args('once'), request_id: `repeat-${name}` }
    const [first, second] = await Promise.all([used.start(), used.start()])
    const answers: ToolAnswer[] = []
    const together = Array.from({ length: 30 }, (_, index) => (index % 2 === 0 ? first : second).call(name, call))
    answers.push(...(await Promise.all(together)))
    for (let count = 0; count < 10; count += 1) answers.push(await first.call(name, call))
    const third = await used.start()
    for (let count = 0; count < 10; count += 1) answers.push(await third.call(name, call))
    expect(answers).toHaveLength(50)
    const bytes = new Set(answers.map(bytesOf))
    expect([...bytes].map((text) => text.slice(0, 600))).toHaveLength(1)
    expect(answers[0]?.isError ?? false).toBe(false)
    expect(await used.charges()).toEqual({ onChain: 1, jobs: 1 })
  })

  it('is charged again under another request_id: the count can fail', async () => {
    const server = await used.start()
    for (const id of ['first', 'second']) await server.call(name, { ...args('twice'), request_id: id })
    // A recording that was transcribed is known by its content.
    expect((await used.charges()).onChain).toBe(name === 'transcribe' ? 1 : 2)
  })

  it('without a request_id is one call within a session', async () => {
    const server = await used.start()
    const answers = [await server.call(name, args('plain')), await server.call(name, args('plain'))]
    expect(new Set(answers.map(bytesOf)).size).toBe(1)
    expect((await used.charges()).onChain).toBe(1)
  })

  it('with other arguments under the same request_id is refused before anything is sent', async () => {
    const server = await used.start()
    const id = { request_id: 'the-same' }
    await server.call(name, { ...args('one'), ...id })
    await used.record('other.mp3')
    const from = used.bench.tap.payments.length
    const other = name === 'transcribe' ? { path: 'other.mp3' } : args('another')
    const answer = await server.call(name, { ...other, ...id })
    expect(answer).toMatchObject({
      isError: true,
      structuredContent: { error: { code: 'request_id_conflict', money: 'none' } },
    })
    expect(used.bench.tap.payments).toHaveLength(from)
    expect((await used.charges()).onChain).toBe(1)
  })
})
