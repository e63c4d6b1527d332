import { mkdir, mkdtemp, readdir, realpath, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { createFarebox, type Farebox, walletFromPrivateKey } from '../../../../client/farebox.ts'
import type { Folders, MeasuredFile } from '../../../../client/mcp/folders/folders.ts'
import { openFolders } from '../../../../client/mcp/folders/open-folders.ts'
import { openLimits } from '../../../../client/mcp/limits/open-limits.ts'
import type { Exchange, McpSession } from '../../../../client/mcp/tool.ts'
import { transcribeTool } from '../../../../client/mcp/tools/transcribe.ts'
import { generateMp3 } from '../../../support/media/mp3-generator.ts'
import { type SharedSandbox, useSharedSandbox } from '../../../support/processes/test-sandbox.ts'

let sandbox: SharedSandbox
let place: string
let allowed: string
let outside: string
let folders: Folders
let farebox: Farebox
let uploads: number

beforeAll(async () => {
  sandbox = await useSharedSandbox()
})
afterAll(async () => {
  await sandbox.stop()
})
beforeEach(async () => {
  place = await realpath(await mkdtemp(join(tmpdir(), 'farebox-swapped-')))
  ;[allowed, outside] = [join(place, 'allowed'), join(place, 'outside')] as const
  for (const folder of [join(allowed, 'spring'), outside]) await mkdir(folder, { recursive: true })
  await writeFile(join(allowed, 'spring', 'a.mp3'), generateMp3({ durationMs: 1000, seed: `${place} inside` }))
  await writeFile(join(outside, 'a.mp3'), generateMp3({ durationMs: 1000, seed: `${place} outside` }))
  folders = await openFolders({ folders: [allowed], hidden: [join(place, 'home')] })
  uploads = 0
  farebox = await createFarebox({
    wallet: walletFromPrivateKey(sandbox.info.payer.privateKey),
    baseUrl: sandbox.info.baseUrl,
    rpcUrl: sandbox.info.rpcUrl,
    journal: join(place, 'home'),
    verify: 'never',
    fetch: async (input, init) => {
      if (new URL(input instanceof Request ? input.url : String(input)).pathname.endsWith('/transcriptions'))
        uploads += 1
      return await fetch(input, init)
    },
  })
})
afterEach(async () => {
  await farebox.close()
  await folders.close()
  await rm(place, { recursive: true, force: true })
})

const EXCHANGE: Exchange = {
  signal: new AbortController().signal,
  progress: () => undefined,
  ask: async () => undefined,
}

function session(own: Partial<Folders>): McpSession {
  return {
    farebox: async () => farebox,
    fareboxWithoutWallet: async () => farebox,
    limits: openLimits(join(place, 'home')),
    folders: { ...folders, ...own },
    nonce: 'one',
  }
}

/** Puts a link to the folder outside in the place of the one inside. */
async function swap(): Promise<void> {
  await rename(join(allowed, 'spring'), join(allowed, 'kept'))
  await symlink(outside, join(allowed, 'spring'))
}

function swapAfter<In, Out>(work: (input: In) => Promise<Out>): (input: In) => Promise<Out> {
  return async (input) => {
    const done = await work(input)
    await swap()
    return done
  }
}

describe('a folder that is replaced by a link during a call', () => {
  it.each(['spring', 'spring/a.mp3'])('after %s was found sends nothing of what the link leads to', async (path) => {
    const own = { find: swapAfter((named: string) => folders.find(named)) }
    const refused = transcribeTool.run(session(own), EXCHANGE, { path })
    await expect(refused).rejects.toMatchObject({ code: 'path_not_allowed', money: 'none' })
    expect(uploads).toBe(0)
  })

  it('after it was measured sends nothing of what the link leads to', async () => {
    const own = { requireMeasured: swapAfter((files: readonly MeasuredFile[]) => folders.requireMeasured(files)) }
    const refused = transcribeTool.run(session(own), EXCHANGE, { path: 'spring/a.mp3' })
    await expect(refused).rejects.toMatchObject({ code: 'file_changed', money: 'none' })
    expect(uploads).toBe(0)
  })

  it('before its transcript is written gets none outside', async () => {
    let isSwapped = false
    const output: Folders['output'] = {
      requireWritable: (paths) => folders.output.requireWritable(paths),
      write: async (path, text) => {
        if (!isSwapped) await swap()
        isSwapped = true
        await folders.output.write(path, text)
      },
    }
    const done = await transcribeTool.run(session({ output }), EXCHANGE, { path: 'spring' })
    expect(done.structured).toMatchObject({ failed: 1, files: [{ error: { code: 'output_unwritable' } }] })
    expect(await readdir(outside)).toEqual(['a.mp3'])
  })
})
