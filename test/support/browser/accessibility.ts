import axe, { type AxeResults } from 'axe-core'
import type { Page } from 'playwright-core'

/** axe-core's rules whose verdict may change with colors and the size of the window; the others read the document. */
export const RULES_OF_APPEARANCE = [
  'color-contrast',
  'link-in-text-block',
  'scrollable-region-focusable',
  'target-size',
] as const

/** Returns what axe-core's rules, or only these of them, find wrong with a page, one line for each place. */
export async function findBarriers(page: Page, rules?: readonly string[]): Promise<readonly string[]> {
  // Evaluated by the browser's debugger, which the page's content security policy does not bind.
  await page.evaluate(axe.source)
  const options = { resultTypes: ['violations'], ...(rules && { runOnly: rules }) }
  const { violations } = await page.evaluate<AxeResults>(`axe.run(document, ${JSON.stringify(options)})`)
  return violations.flatMap(({ id, help, nodes }) =>
    nodes.map(({ target, failureSummary }) => `${id} (${help}) at ${target.join(' ')}: ${failureSummary ?? ''}`),
  )
}

/** Returns the elements that make a page wider than its window, so that it would have to be scrolled sideways. */
export async function findOverflow(page: Page): Promise<readonly string[]> {
  return await page.evaluate<string[]>(`(() => {
    const { scrollWidth, clientWidth } = document.documentElement
    if (scrollWidth <= clientWidth) return []
    const wide = [...document.body.querySelectorAll('*')].filter(
      (element) => element.getBoundingClientRect().right > clientWidth + 1 || element.scrollWidth > clientWidth)
    return (wide.length > 0 ? wide : [document.body]).map((element) => element.outerHTML.slice(0, 120))
  })()`)
}
