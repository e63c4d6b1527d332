import { readFile } from 'node:fs/promises'
import { expect, it } from 'vitest'
import { mutations } from './mutation-list.ts'

const ROOT = new URL('../../../', import.meta.url)

it.each(mutations.filter(({ replacements }) => replacements))(
  'takes away what is still there: $name',
  async ({ replacements = [] }) => {
    const sources = new Map<string, string>()
    for (const { file, from, to } of replacements) {
      const source = sources.get(file) ?? (await readFile(new URL(file, ROOT), 'utf8'))
      expect(source.split(from), `${file} holds once: ${from}`).toHaveLength(2)
      sources.set(
        file,
        source.replace(from, () => to),
      )
    }
  },
)
