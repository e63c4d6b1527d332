import { describe, expect, it } from 'vitest'
import { runClientCampaign, type Variant } from '../resilience/client/run-client.ts'

const SMALL = { seed: 20_261_122, clips: 40, kills: 4, concurrency: 8, upstreamDelayMs: 300 } as const

describe('the batch command, killed and run again', () => {
  it.each<Variant>(['kept', 'deleted', 'forgotten', 'service'])(
    'transcribes each clip once and pays for it once: %s',
    async (variant) => {
      const report = await runClientCampaign({ ...SMALL, variant })
      expect(report.violations).toEqual([])
      expect(report.transfers).toBe(SMALL.clips)
      expect(report.runs.some(({ kill }) => kill !== null)).toBe(true)
      expect(report.serviceKills > 0).toBe(variant === 'service')
    },
  )

  it('the checker reports what a client with random keys pays twice', async () => {
    const report = await runClientCampaign({ ...SMALL, variant: 'deleted', withRandomKeys: true })
    expect(report.transfers).toBeGreaterThan(SMALL.clips)
    expect(report.violations.join('\n')).toMatch(/was charged on chain for[^]*has 2 receipts/)
  })
})
