import type { Sql } from '../pool.ts'

/** Records the nonce of an answered sign-in challenge until it expires. Returns whether it was not used before. */
export async function useSignIn(sql: Sql, nonce: string, expiresAt: Date): Promise<boolean> {
  const { rowCount } = await sql.query({
    name: 'use_sign_in',
    text: 'INSERT INTO used_sign_ins (nonce, expires_at) VALUES ($1, $2) ON CONFLICT DO NOTHING',
    values: [nonce, expiresAt],
  })
  return rowCount === 1
}
