/** The page of the inspector. */
import { render } from 'preact'
import { takeToken } from './api.js'
import { App } from './app.js'
import { followPlace } from './route.js'

takeToken()
// The URL of an open page may get a new token. It is taken out before the place is read. The sessions of another caller
// must not stay in the page.
addEventListener('hashchange', () => {
  if (takeToken()) location.reload()
})
followPlace()
render(<App />, document.body)
