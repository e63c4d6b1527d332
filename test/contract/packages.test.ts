import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import client from '../../client/package.json' with { type: 'json' }
import repositoryLock from '../../package-lock.json' with { type: 'json' }
import repository from '../../package.json' with { type: 'json' }
import sdksLock from '../sdks/package-lock.json' with { type: 'json' }
import sdks from '../sdks/package.json' with { type: 'json' }

interface Locked {
  readonly version?: string
  readonly link?: boolean
  readonly resolved?: string
}

test.each([
  ['of the repository', repositoryLock],
  ['of test/sdks', sdksLock],
])('the lockfile %s names no address to download from, so that every registry serves it', (_, { packages }) => {
  const addressed = Object.entries(packages as Readonly<Record<string, Locked>>).filter(
    ([, { link, resolved }]) => resolved && !link,
  )
  expect(addressed).toEqual([])
})

test('a package that the repository and test/sdks both name has the same version in both', () => {
  const versions = new Map(
    [repository.dependencies, repository.devDependencies, client.dependencies].flatMap((named) =>
      Object.entries(named),
    ),
  )
  const shared = Object.entries(sdks.devDependencies).filter(([name]) => versions.has(name))
  expect(shared.length).toBeGreaterThan(0)
  expect(shared.filter(([name, version]) => versions.get(name) !== version)).toEqual([])
})

test('npm run check says how to install the packages of test/sdks where they are absent, and fails for that in CI', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'farebox-check-'))
  try {
    await mkdir(join(folder, 'test/sdks'), { recursive: true })
    const check = (environment: NodeJS.ProcessEnv) =>
      new Promise<{ code: unknown; errors: string }>((resolve) => {
        const env = { PATH: process.env['PATH'], ...environment }
        execFile(fileURLToPath(new URL('../sdks/check', import.meta.url)), { cwd: folder, env }, (error, _, errors) =>
          resolve({ code: error?.code ?? 0, errors }),
        )
      })
    const errors = 'test/sdks is not checked: run npm ci --prefix test/sdks for its packages.\n'
    expect(await check({})).toEqual({ code: 0, errors })
    expect(await check({ CI: 'true' })).toEqual({ code: 1, errors })
  } finally {
    await rm(folder, { recursive: true })
  }
})
