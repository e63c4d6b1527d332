import { type Browser, type BrowserContextOptions, chromium, type Page } from 'playwright-core'
import { PATIENCE_MS } from '../patience.ts'
import { pathOf } from '../processes/optional-program.ts'

/** Narrow enough for the smallest phones that are in use. */
export const PHONE = { width: 360, height: 740 }
export const DESKTOP = { width: 1280, height: 900 }

/** A window of a real Chromium, with everything in it that a page of the console must not cause. */
export interface Visitor {
  readonly page: Page
  /**
   * Requests to other origins, scripts and styles that the page's policy refused, script errors, dialogs and failed
   * requests since the window was opened.
   */
  readonly problems: readonly string[]
  readonly close: () => Promise<void>
}

export interface TestBrowser {
  /** Opens a window with its own cookies, whose relative addresses are below `origin`. */
  open(origin: string, options?: BrowserContextOptions): Promise<Visitor>
  close(): Promise<void>
}

/** Starts Chromium without a screen. Tests need `havePrograms('chromium')`, which names the Debian package. */
export async function startBrowser(): Promise<TestBrowser> {
  const browser = await chromium.launch({
    executablePath: pathOf('chromium'),
    // Containers have neither user namespaces nor a large /dev/shm. Names do not resolve: nothing can leave the machine.
    args: ['--no-sandbox', '--disable-dev-shm-usage', '--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1'],
    timeout: PATIENCE_MS,
  })
  return {
    open: (origin, options) => openVisitor(browser, origin, options),
    close: () => browser.close(),
  }
}

async function openVisitor(browser: Browser, origin: string, options: BrowserContextOptions = {}): Promise<Visitor> {
  const context = await browser.newContext({ baseURL: origin, viewport: DESKTOP, reducedMotion: 'reduce', ...options })
  context.setDefaultTimeout(PATIENCE_MS)
  const problems: string[] = []
  const page = await context.newPage()
  page.on('request', (request) => {
    const { protocol, origin: target } = new URL(request.url())
    if (protocol !== 'data:' && target !== new URL(origin).origin) problems.push(`asked another host: ${request.url()}`)
  })
  page.on('requestfailed', (request) => {
    // A page that is left gives up what it still reads.
    const reason = request.failure()?.errorText ?? ''
    if (reason !== 'net::ERR_ABORTED') problems.push(`${reason}: ${request.url()}`)
  })
  page.on('console', (message) => {
    if (message.type() === 'error' && !isRefusedForm(message.text())) problems.push(`console: ${message.text()}`)
  })
  page.on('pageerror', (error) => problems.push(`script error: ${error.message}`))
  page.on('dialog', (dialog) => {
    problems.push(`dialog: ${dialog.message()}`)
    void dialog.dismiss()
  })
  return { page, problems, close: () => context.close() }
}

/** Chromium logs each answer of 400 and above as an error; tests compare statuses themselves. */
function isRefusedForm(text: string): boolean {
  return text.startsWith('Failed to load resource: the server responded with a status of ')
}
