import '@fastify/csrf-protection'
import { fastifyView } from '@fastify/view'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { FORMATS } from './formats.ts'
import { takeNotice } from './notice.ts'
import type { View } from './outcomes.ts'
import { createTemplates, TEMPLATES } from './templates.ts'

/** An entry of the navigation. */
export interface NavigationEntry {
  readonly label: string
  readonly path: string
}

/** A route of the console, as tests enumerate them. */
export interface ConsoleRoute {
  readonly kind: 'page' | 'action' | 'download'
  readonly path: string
}

/** What was wrong with an action, and what was entered; secrets are left out. */
export interface Refusal {
  /** The URL that the form was sent to. */
  readonly action: string
  readonly sentence: string
  readonly fieldErrors: Readonly<Record<string, string>>
  readonly entered: Readonly<Record<string, string>>
}

declare module 'fastify' {
  interface FastifyInstance {
    readonly consoleRoutes: ConsoleRoute[]
    readonly navigation: readonly NavigationEntry[]
    readonly consoleNow: () => Date
  }
}

/** Adds what pages are rendered with. */
export async function addRendering(
  app: FastifyInstance,
  { navigation, now }: { readonly navigation: readonly NavigationEntry[]; readonly now: () => Date },
): Promise<void> {
  app.decorate('consoleRoutes', [])
  app.decorate('navigation', navigation)
  app.decorate('consoleNow', now)
  await app.register(fastifyView, {
    engine: { eta: createTemplates() },
    root: TEMPLATES,
    layout: 'rendering/views/layout.eta',
    viewExt: 'eta',
    production: true,
  })
}

export interface SentView extends View {
  readonly status?: number
  readonly refusal?: Refusal | null
  /** Whether the page reads itself again every few seconds. */
  readonly isLive?: boolean
  /** Whether the browser opens the whole page again every few seconds, without JavaScript. */
  readonly isOpenedAgain?: boolean
  /** The filters that the page was read with, when they are not those of the request. */
  readonly query?: Readonly<Record<string, string>>
}

/** Sends a page in the layout. */
export async function sendView(request: FastifyRequest, reply: FastifyReply, page: SentView): Promise<FastifyReply> {
  const { server, operator } = request
  // An address that begins with `//` would be one of another host, where a page repeats it.
  const url = request.url.replace(/^\/{2,}/, '/')
  const [path = '/'] = url.split('?', 1)
  const notice = await takeNotice(request, reply)
  const html = await reply.viewAsync(`pages/${page.view}`, {
    title: page.title,
    data: page.data,
    hasCharts: page.hasCharts ?? false,
    isLive: page.isLive ?? false,
    isOpenedAgain: page.isOpenedAgain ?? false,
    refusal: page.refusal ?? null,
    here: { path, url, query: page.query ?? request.query },
    operator,
    csrf: reply.generateCsrf(),
    notice,
    format: FORMATS,
    navigation: server.navigation,
    now: server.consoleNow(),
  })
  return reply
    .status(page.status ?? 200)
    .header('content-type', 'text/html; charset=utf-8')
    .send(html)
}

export interface Problem {
  readonly status: number
  readonly title: string
  readonly sentence: string
}

/** Sends a page that says what is wrong. During an outage it reads itself again. */
export async function sendProblem(
  request: FastifyRequest,
  reply: FastifyReply,
  { status, title, sentence }: Problem,
): Promise<FastifyReply> {
  const isOutage = status === 503 && request.method === 'GET'
  const view = { title, view: 'problem/problem', data: { sentence }, status }
  return await sendView(request, reply, { ...view, isLive: isOutage, isOpenedAgain: isOutage })
}
