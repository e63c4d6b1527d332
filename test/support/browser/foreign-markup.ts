import type { Page } from 'playwright-core'

/** Elements that a page of the console never has, since they run, load or send something. */
const FORBIDDEN =
  'iframe, object, embed, base, style, math, marquee, template, noscript, video, audio, frame, x, body body'

/** Finds in a document what does not belong to the console: `scan(document)` in the page. */
const SCAN = `(found) => {
  const addresses = ['src', 'href', 'action', 'formaction', 'srcset', 'poster', 'data', 'xlink:href', 'hx-get', 'hx-post']
  const isOwn = (address) => {
    try {
      return new URL(address, 'http://console.test/operator').origin === 'http://console.test'
        || new URL(address).origin === location.origin
    } catch { return false }
  }
  return [...found.querySelectorAll('*')].flatMap((element) => {
    const wrong = [...element.attributes].filter(({ name, value }) =>
      /^(on|hx-on|style$|http-equiv$|srcdoc$)/.test(name) || (addresses.includes(name) && !isOwn(value)))
    const hasCode = /^script$/i.test(element.tagName) && element.textContent.trim() !== ''
    return wrong.length > 0 || hasCode || element.matches('${FORBIDDEN}') ? [element.outerHTML.slice(0, 160)] : []
  })
}`

/** Returns elements of the page that lead to another origin, run code or carry a style. */
export async function findForeignMarkup(page: Page): Promise<readonly string[]> {
  return await page.evaluate<string[]>(`(${SCAN})(document)`)
}

/** Returns the same of pages that are given as text, read by the browser's own parser but not run. */
export async function findForeignMarkupIn(page: Page, html: string): Promise<readonly string[]> {
  return await page.evaluate<string[]>(
    `(${SCAN})(new DOMParser().parseFromString(${JSON.stringify(html)}, 'text/html'))`,
  )
}
