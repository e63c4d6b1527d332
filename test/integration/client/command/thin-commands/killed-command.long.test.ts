import { describe, expect, it } from 'vitest'
import { until } from '../../../../support/until.ts'
import { useCommandBench } from '../support/command-bench.ts'

const UPSTREAM_DELAY_MS = 1500
/** The cheapest chat. */
const CHAT = 2000n

const bench = useCommandBench()

describe('a command that is killed', () => {
  it('is charged once when it is run again, and its answer arrives', async () => {
    const upstreamCalls = async () => (await bench.sandbox.upstreamCalls()).length
    await bench.sandbox.setFaults([{ fault: 'none', delayMs: UPSTREAM_DELAY_MS }])
    const { child, done } = bench.start(['chat', 'Say hello.'])
    await until(async () => (await upstreamCalls()) > 0)
    child.kill('SIGKILL')
    await done
    const again = await bench.run(['chat', 'Say hello.'])
    expect(again.code).toBe(0)
    expect(again.out).toContain('Say hello.')
    expect([await bench.paid(), await upstreamCalls()]).toEqual([CHAT, 1])
  })
})
