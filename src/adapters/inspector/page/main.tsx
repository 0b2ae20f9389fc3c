/** The page of the inspector. */
import { render } from 'preact'
import { takeToken } from './api.js'
import { App } from './app.js'
import { followPlace } from './route.js'

takeToken()
// The URL of an open page may get a new token. It is taken out before the place is read.
addEventListener('hashchange', takeToken)
followPlace()
render(<App />, document.body)
