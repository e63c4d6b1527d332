import { existsSync, readFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
const FOLDERS = ['.', 'client', 'infra', 'test']

/** The links of a Markdown page to other files of the repository, without their anchors. */
function relativeLinks(page: string): string[] {
  const links = [...readFileSync(join(ROOT, page), 'utf8').matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)]
  return links.flatMap(([, link]) => (link === undefined || link.includes('://') ? [] : [link]))
}

async function findPages(): Promise<string[]> {
  const found = await Promise.all(
    FOLDERS.map(async (folder) => {
      const names = await readdir(join(ROOT, folder), { recursive: folder !== '.' })
      return names
        .filter((name) => name.endsWith('.md') && !name.includes('node_modules'))
        .map((name) => join(folder, name))
    }),
  )
  return found.flat()
}

test('every relative link of a Markdown page leads to a file of the repository', async () => {
  const pages = await findPages()
  expect(pages).toEqual(
    expect.arrayContaining(['README.md', 'client/README.md', 'infra/decisions/README.md', 'test/README.md']),
  )
  const broken = pages.flatMap((page) =>
    relativeLinks(page)
      .filter((link) => !existsSync(join(ROOT, dirname(page), link)))
      .map((link) => `${page}: ${link}`),
  )
  expect(broken).toEqual([])
})

test('the index of the decisions lists every decision', async () => {
  const names = await readdir(join(ROOT, 'infra/decisions'))
  const decisions = names.filter((name) => name !== 'README.md').toSorted()
  expect(relativeLinks('infra/decisions/README.md').toSorted()).toEqual(decisions)
})
