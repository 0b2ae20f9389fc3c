import { existsSync } from 'node:fs'
import { env } from 'node:process'
import { chromium, type Browser } from 'playwright-core'

/** The browser of the system. Tests never download one. */
const executablePath = [
  env['CHROMIUM'],
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
].find((path) => path !== undefined && existsSync(path))

/** Whether there is a browser. With FORKSPACE_REQUIRE_ALL, tests need one and fail without it. */
export const hasBrowser = executablePath !== undefined || env['FORKSPACE_REQUIRE_ALL'] !== undefined

/** Starts a browser without a window. */
export async function startBrowser(): Promise<Browser> {
  if (executablePath === undefined) throw new Error('there is no Chromium: install it, or set CHROMIUM')
  return chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-gpu'] })
}
