import type { FastifyInstance } from 'fastify'
import { z } from 'zod'
import type { OperatorStore } from '#shared/ledger/operators/operator-store.ts'
import { LONGEST_PASSWORD, SHORTEST_PASSWORD } from '#shared/operators/operator-account.ts'
import { hashPassword } from '#shared/operators/password.ts'
import { addAction, addPage, done, refused } from '../../rendering/page.ts'
import { whyNotTheirs } from '../../sessions/check-password.ts'
import { SIGN_IN_PATH } from '../../sessions/session.ts'

export interface AccountPageDependencies {
  readonly accounts: OperatorStore
  readonly sessions: OperatorStore
}

const PATH = '/operator/account'

/** Adds the page of an operator's own account. Accounts of others are changed by `npm run operators`. */
export function addAccountPages(app: FastifyInstance, { accounts, sessions }: AccountPageDependencies): void {
  addPage(app, {
    path: PATH,
    query: z.object({}),
    read: async () => ({
      title: 'Your account',
      view: 'account/account',
      data: { accounts: await accounts.listAccounts(), shortest: SHORTEST_PASSWORD, longest: LONGEST_PASSWORD },
    }),
  })
  addAction(app, {
    path: '/operator/account/password',
    page: PATH,
    role: 'read',
    fields: z.object({
      current_password: z.string().min(1, 'Enter your current password.').max(LONGEST_PASSWORD),
      new_password: z
        .string()
        .min(SHORTEST_PASSWORD, `A password has at least ${SHORTEST_PASSWORD} characters.`)
        .max(LONGEST_PASSWORD),
      repeated_password: z.string(),
    }),
    run: async ({ fields }, author, request) => {
      if (fields.new_password !== fields.repeated_password)
        return refused('The password was not changed.', { repeated_password: 'The two new passwords differ.' })
      const problem = await whyNotTheirs(sessions, request, author, fields.current_password)
      if (problem !== null) {
        const sentence = problem === 'wrong' ? 'This is not your current password.' : problem.throttled
        return refused('The password was not changed.', { current_password: sentence })
      }
      await accounts.changePassword(author.operator, await hashPassword(fields.new_password), author)
      return done('Your password is changed, and every session of your account has ended.', SIGN_IN_PATH)
    },
  })
}
