import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { readOrCreateSecrets } from '../../../infra/sandbox/state-directory.ts'

let directory: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'farebox-secrets-'))
})
afterEach(() => rm(directory, { recursive: true, force: true }))

it('secrets are generated once', async () => {
  const first = await readOrCreateSecrets(directory, 1)
  expect(await readOrCreateSecrets(directory, 1)).toEqual(first)
})

it('secrets that an earlier version did not store are added and kept', async () => {
  const { receiptSigningSeed: _, ...earlier } = await readOrCreateSecrets(directory, 1)
  const path = join(directory, 'secrets.json')
  await writeFile(path, JSON.stringify(earlier))
  const upgraded = await readOrCreateSecrets(directory, 1)
  expect(upgraded).toMatchObject(earlier)
  expect(upgraded.receiptSigningSeed).toMatch(/^[0-9a-f]{64}$/)
  expect(await readOrCreateSecrets(directory, 1)).toEqual(upgraded)
  expect(JSON.parse(await readFile(path, 'utf8'))).toEqual(upgraded)
})
