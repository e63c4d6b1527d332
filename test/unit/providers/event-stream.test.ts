import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { isEventStream, readEventStream, type StreamProgress } from '../../../workers/providers/event-stream.ts'

const LIMITS = { maximumBytes: 10_000, stallMs: 5000 }

/** A response whose body the test writes and whose end and cancellation it sees. */
function openStream() {
  const sent: { controller?: ReadableStreamDefaultController<Uint8Array> } = {}
  const closed = vi.fn()
  const body = new ReadableStream<Uint8Array>({
    start: (controller) => {
      sent.controller = controller
    },
    cancel: closed,
  })
  return {
    body,
    closed,
    send: (bytes: string | Uint8Array) => sent.controller?.enqueue(Buffer.from(bytes)),
    end: () => sent.controller?.close(),
    fail: (error: Error) => sent.controller?.error(error),
  }
}

const streamOf = (pieces: readonly Uint8Array[]) => {
  const stream = openStream()
  for (const piece of pieces) stream.send(piece)
  stream.end()
  return stream
}

/** Takes events that are the next progress themselves, and remembers all. */
function taking() {
  const events: string[] = []
  const take = (data: string): StreamProgress => {
    events.push(data)
    return /^(?:waiting|writing|finished|ended|unusable)$/.test(data) ? (data as StreamProgress) : 'writing'
  }
  return { events, take }
}

const hasType = (value: string, status = 200) =>
  isEventStream({ status, headers: new Headers({ 'content-type': value }) })

describe('the events of a stream', () => {
  const STREAM = Buffer.from(
    ': comment\n\nevent: message\ndata: {"text":"größer 𝄞"}\n\nretry: 5\n\r\ndata: one\ndata: two\n\ndata:last\r\n\r\ndata: unfinished',
  )

  it('are the same however its bytes are divided', async () => {
    const cuts = fc.array(fc.nat({ max: STREAM.length }), { maxLength: 12 })
    await fc.assert(
      fc.asyncProperty(cuts, async (at) => {
        const bounds = [0, ...at.toSorted((left, right) => left - right), STREAM.length]
        const pieces = bounds.slice(1).map((bound, index) => STREAM.subarray(bounds[index], bound))
        const { events, take } = taking()
        expect(await readEventStream(streamOf(pieces), take, LIMITS)).toEqual({ progress: 'writing', end: 'closed' })
        expect(events).toEqual(['{"text":"größer 𝄞"}', 'one\ntwo', 'last'])
      }),
      { numRuns: 200 },
    )
  })

  it('are not taken after the last one, or after one that cannot be used', async () => {
    for (const last of ['ended', 'unusable'] as const) {
      const { events, take } = taking()
      const stream = streamOf([Buffer.from(`data: a\n\ndata: ${last}\n\ndata: b\n\n`)])
      expect(await readEventStream(stream, take, LIMITS)).toEqual({ progress: last, end: 'closed' })
      expect(events).toEqual(['a', last])
    }
  })

  it('are read of a response of status 200 and the type of event streams only', () => {
    expect([hasType('text/event-stream'), hasType('Text/Event-Stream; charset=utf-8')]).toEqual([true, true])
    expect([hasType('application/json'), hasType('text/event-stream', 500)]).toEqual([false, false])
    expect(isEventStream({ status: 200, headers: new Headers() })).toBe(false)
    expect(hasType('text/event-streams')).toBe(false)
  })
})

describe('the end of a stream', () => {
  beforeEach(() => vi.useFakeTimers())
  afterEach(() => vi.useRealTimers())

  it('is known where the connection is lost, with the error', async () => {
    const stream = openStream()
    stream.send('data: writing\n\n')
    const reading = readEventStream(stream, taking().take, LIMITS)
    await vi.advanceTimersByTimeAsync(0)
    const error = new Error('reset')
    stream.fail(error)
    expect(await reading).toEqual({ progress: 'writing', end: 'broken', error })
    expect(vi.getTimerCount()).toBe(0)
  })

  it('comes when a stream that writes stands still, and closes the connection', async () => {
    const stream = openStream()
    const reading = readEventStream(stream, taking().take, LIMITS)
    stream.send('data: writing\n\n')
    for (let pause = 0; pause < 3; pause += 1) {
      await vi.advanceTimersByTimeAsync(4999)
      // A comment, which some vendors send as a heartbeat.
      stream.send(': ping\n\n')
    }
    await vi.advanceTimersByTimeAsync(4999)
    expect(stream.closed).not.toHaveBeenCalled()
    await vi.advanceTimersByTimeAsync(1)
    expect(await reading).toEqual({ progress: 'writing', end: 'stalled' })
    expect(stream.closed).toHaveBeenCalled()
  })

  it('does not come while the model thinks before its first output', async () => {
    const stream = openStream()
    const reading = readEventStream(stream, taking().take, LIMITS)
    stream.send('data: waiting\n\n')
    await vi.advanceTimersByTimeAsync(600_000)
    expect(stream.closed).not.toHaveBeenCalled()
    stream.send('data: ended\n\n')
    stream.end()
    expect(await reading).toEqual({ progress: 'ended', end: 'closed' })
  })

  it('comes a second after the last event where the server keeps the response open', async () => {
    const stream = openStream()
    const reading = readEventStream(stream, taking().take, LIMITS)
    stream.send('data: ended\n\n')
    await vi.advanceTimersByTimeAsync(999)
    expect(stream.closed).not.toHaveBeenCalled()
    await vi.advanceTimersByTimeAsync(1)
    expect(await reading).toEqual({ progress: 'ended', end: 'closed' })
    expect(stream.closed).toHaveBeenCalled()
  })

  it.each([
    ['without end', () => 'data: writing\n\n'.repeat(700), 'writing'],
    ['of pings', () => ': ping\n\n'.repeat(1500), 'waiting'],
    ['of one line without end', () => 'x'.repeat(10_001), 'waiting'],
  ])('comes at the limit of a stream %s, and closes the connection', async (_name, bytes, progress) => {
    const stream = openStream()
    stream.send(bytes())
    expect(await readEventStream(stream, taking().take, LIMITS)).toEqual({ progress, end: 'over_limit' })
    expect(stream.closed).toHaveBeenCalled()
  })

  it('comes at the limit of one event, however many bytes the stream may have', async () => {
    const stream = openStream()
    stream.send(`data: ${'x'.repeat(9 * 1024 * 1024)}`)
    const limits = { ...LIMITS, maximumBytes: 64 * 1024 * 1024 }
    expect(await readEventStream(stream, taking().take, limits)).toEqual({ progress: 'waiting', end: 'over_limit' })
  })
})
