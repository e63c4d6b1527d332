import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { chooseOutputs } from '../../../../client/batch/plan/choose-outputs.ts'
import type { BatchOptions, Source } from '../../../../client/batch/types.ts'

const source = (name: string): Source => ({ path: `/audio/${name}`, label: name, name: name })

function outputsOf(
  names: readonly string[],
  options: Partial<Pick<BatchOptions, 'formats' | 'output' | 'receipts'>> = {},
  ownerOf: (output: string, path: string) => string | undefined = () => undefined,
  isOwn: (output: string, path: string) => boolean = () => false,
) {
  const all = { formats: ['srt'], output: {}, receipts: false, ...options } as const
  const context = { options: all, ownerOf, isOwn, modifiedMsOf: () => Date.UTC(2026, 10, 22) }
  return chooseOutputs(names.map(source), context).map(({ outputs }) => outputs)
}

describe('where transcripts are written', () => {
  it('is next to the source, with the ending of the format', () => {
    expect(outputsOf(['a.mp3', 'b/c.d.wav'], { formats: ['srt', 'txt'] })).toEqual([
      ['/audio/a.srt', '/audio/a.txt'],
      ['/audio/b/c.d.srt', '/audio/b/c.d.txt'],
    ])
  })

  it('is under the folder that is named, with the folders of the sources', () => {
    expect(outputsOf(['a.mp3', 'b/c.wav'], { output: { folder: '/out' } })).toEqual([['/out/a.srt'], ['/out/b/c.srt']])
  })

  it('follows a template', () => {
    const template = '{date}/{folder}/{name}-{ext}'
    expect(outputsOf(['b/c.wav'], { output: { folder: '/out', template } })).toEqual([['/out/2026-11-22/b/c-wav.srt']])
    expect(outputsOf(['b/c.wav'], { output: { template: 'text/{name}' } })).toEqual([['/audio/b/text/c.srt']])
  })

  it('keeps the ending of the second of two sources with one name', () => {
    expect(outputsOf(['a.mp3', 'a.wav'])).toEqual([['/audio/a.srt'], ['/audio/a.wav.srt']])
  })

  it('is never a source, whatever its ending', () => {
    expect(outputsOf(['a.txt', 'b.mp3'], { formats: ['txt'] })).toEqual([['/audio/a.txt.txt'], ['/audio/b.txt']])
  })

  it('is never the transcript of another source that an earlier run wrote', () => {
    const owners = new Map([['/audio/a.srt', '/audio/a.mp3']])
    expect(outputsOf(['a.wav'], {}, (output) => owners.get(output))).toEqual([['/audio/a.wav.srt']])
  })

  it('stays where an earlier run wrote it when the source that had the shorter name is gone', () => {
    const owners = new Map([['/audio/a.wav.srt', '/audio/a.wav']])
    const isOwn = (output: string, path: string) => owners.get(output) === path
    expect(outputsOf(['a.wav'], {}, () => undefined, isOwn)).toEqual([['/audio/a.wav.srt']])
  })

  it('is in the folder that is named, also where the template leaves no name', () => {
    const all = { output: { folder: '/out', template: '{folder}' } }
    expect(outputsOf(['c.wav', 'b/c.wav'], all)).toEqual([['/out/c.srt'], ['/out/b.srt']])
    expect(outputsOf(['b/c.wav'], { output: { folder: '/out', template: '{folder}/' } })).toEqual([['/out/b/c.srt']])
  })

  it('is nowhere if transcripts are printed', () => {
    expect(outputsOf(['a.mp3'], { output: { print: () => undefined } })).toEqual([[]])
  })

  it('differs for all files of a batch, whatever their names, formats and template', () => {
    const name = fc.array(fc.constantFrom('a', 'b', '.', '/', '-2', '.mp3', '.wav', '.srt', '.txt'), {
      minLength: 1,
      maxLength: 5,
    })
    fc.assert(
      fc.property(
        fc.uniqueArray(
          name.map((parts) =>
            parts
              .join('')
              .replace(/\/+|\/\.+|^\.+/g, '/x')
              .replace(/^\//, '')
              .replace(/\/?$/, 'y.mp3'),
          ),
          { minLength: 1, maxLength: 12 },
        ),
        fc.constantFrom(undefined, '{name}', 'all', '{folder}/{ext}'),
        (names, template) => {
          const outputs = outputsOf(names, { formats: ['srt', 'txt'], output: { template } }).flat()
          expect(new Set(outputs).size).toBe(outputs.length)
          for (const path of names.map((each) => source(each).path)) expect(outputs).not.toContain(path)
        },
      ),
    )
  })
})
