import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { renderSrt, renderVtt } from '../../../client/subtitles/subtitles.ts'
import { startBrowser, type TestBrowser } from '../../support/browser/browser.ts'
import { changedByLibass } from '../../support/client/subtitles/libass.ts'
import { readWithMediaCaptions, readWithSubsrt } from '../../support/client/subtitles/other-readers.ts'
import { readSrt, readVtt } from '../../support/client/subtitles/read-back.ts'
import { folded } from '../../support/client/subtitles/shown-cues.ts'
import { CODE_SIGNS, codeCues, foldedTexts, SIGNS, sweepOf } from '../../support/client/subtitles/sweep.ts'
import { havePrograms } from '../../support/processes/optional-program.ts'

/** Reads a file as the track of a video, in the page. */
const READ_TRACK = `(file) => new Promise((resolve, reject) => {
  const element = document.createElement('track')
  element.addEventListener('error', () => reject(new Error('the track was not read')))
  element.addEventListener('load', () =>
    resolve(Array.from(element.track.cues, (cue) => cue.getCueAsHTML().textContent)))
  element.src = URL.createObjectURL(new Blob([file], { type: 'text/vtt' }))
  document.querySelector('video').append(element)
  element.track.mode = 'hidden'
})`

const hasPrograms = havePrograms('ffmpeg', 'chromium')

describe.skipIf(!hasPrograms)('every three signs that codes are made of', () => {
  const cues = sweepOf(CODE_SIGNS, 3)
  const texts = foldedTexts(cues)

  it.each(['srt', 'vtt'] as const)('are drawn by libass and read by media-captions and subsrt-ts: %s', async (form) => {
    const file = form === 'srt' ? renderSrt(cues) : renderVtt(cues)
    const read = form === 'srt' ? readSrt(file) : readVtt(file)
    expect(read.map(({ text }) => folded(text))).toEqual(texts)
    expect(changedByLibass(cues, form)).toEqual([])
    expect((await readWithMediaCaptions(file, form)).map(folded)).toEqual(texts)
    expect(readWithSubsrt(file, form).map(folded)).toEqual(texts)
  })
})

describe.skipIf(!hasPrograms)('a WebVTT file in Chromium', () => {
  let browser: TestBrowser
  beforeAll(async () => {
    browser = await startBrowser()
  })
  afterAll(() => browser.close())

  it.each([
    ['every two signs', sweepOf(SIGNS, 2)],
    ['every three signs that codes are made of', sweepOf(CODE_SIGNS, 3)],
    ['codes of many formats', codeCues()],
  ])('shows every character of %s', async (_, cues) => {
    const { page, close } = await browser.open('http://127.0.0.1')
    await page.setContent('<video></video>')
    const shown = await page.evaluate<string[]>(`(${READ_TRACK})(${JSON.stringify(renderVtt(cues))})`)
    await close()
    expect(shown.map(folded)).toEqual(foldedTexts(cues))
  })
})
