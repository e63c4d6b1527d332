import { resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ArrivedFiles } from '../../../../client/command/transcribe/arrived-files.ts'

describe('files that arrive in a watched folder', () => {
  it('are returned together, each once, and not again', async () => {
    const arrived = new ArrivedFiles()
    const { signal } = new AbortController()
    const first = arrived.next(signal)
    for (const path of ['a.mp3', 'b.mp3', 'a.mp3']) arrived.add(path)
    expect([...(await first)]).toEqual([resolve('a.mp3'), resolve('b.mp3')])
    arrived.add('c.mp3')
    expect([...(await arrived.next(signal))]).toEqual([resolve('c.mp3')])
  })

  it('are no longer waited for after an interrupt', async () => {
    const controller = new AbortController()
    const next = new ArrivedFiles().next(controller.signal)
    controller.abort()
    expect((await next).size).toBe(0)
  })
})
