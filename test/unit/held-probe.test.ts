import { describe, expect, it } from 'vitest'
import { HELD_PROBE_HEADER, isHeldProbe, sealHeldProbe } from '../../api/paid-request/quote/held-probe.ts'

const NOW = new Date('2026-11-28T06:00:00.500Z')
const later = (seconds: number) => new Date(NOW.getTime() + seconds * 1000)
const [SECRET, OTHER] = ['s'.repeat(32), 'o'.repeat(32)] as const
const sealed = sealHeldProbe([SECRET], NOW)
const isHeld = (value: string | string[] | undefined, now = NOW, secrets: [string, ...string[]] = [SECRET]) =>
  isHeldProbe({ [HELD_PROBE_HEADER]: value }, secrets, now)

describe('a probe that is held', () => {
  it('is asked for with the newest secret, and with the one before while it is replaced', () => {
    expect([isHeld(sealed), isHeld(sealed, NOW, [OTHER, SECRET])]).toEqual([true, true])
  })

  it('is asked for within a minute, by clocks that differ in either direction', () => {
    expect([later(59), later(-59)].map((now) => isHeld(sealed, now))).toEqual([true, true])
    expect([later(61), later(-61)].map((now) => isHeld(sealed, now))).toEqual([false, false])
  })

  it('is not asked for without the secret', () => {
    const [issuedAt = '', tag = ''] = sealed.split('.')
    const forged = [
      sealHeldProbe([OTHER], NOW),
      `${Number(issuedAt) + 1}.${tag}`,
      `${issuedAt}.${tag.toUpperCase()}`,
      issuedAt,
      `${issuedAt}.`,
      `.${tag}`,
      `NaN.${tag}`,
      '',
      [sealed],
      undefined,
    ]
    expect(forged.filter((value) => isHeld(value))).toEqual([])
  })
})
