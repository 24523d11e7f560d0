// The search runs in a Worker, and a page that is opened from the disk may not start one. There, a hidden frame takes its
// place. Served over HTTP, this file does nothing. (MkDocs Material would fetch such a script from a CDN.)
if (location.protocol === "file:") {
  const runtime = () => {
    self.postMessage = data => parent.postMessage(data, "*")
    self.importScripts = async (...urls) => {
      for (const url of urls)
        await new Promise((resolve, reject) => {
          const script = document.createElement("script")
          Object.assign(script, { src: url, onload: resolve, onerror: reject })
          document.body.append(script)
        })
    }
  }
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const inner = this.frame.contentWindow
      inner.document.open()
      inner.document.write(`<body><script>(${runtime})()<\/script><script src="${url}"><\/script></body>`)
      inner.document.close()
      this.ready = new Promise(resolve => { inner.onload = resolve })
      this.listener = event => {
        if (event.source !== inner) return
        const message = new MessageEvent("message", { data: event.data })
        this.dispatchEvent(message)
        this.onmessage?.(message)
      }
      addEventListener("message", this.listener)
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", structuredClone({ data }))))
    }
    terminate() {
      removeEventListener("message", this.listener)
      this.frame.remove()
    }
  }
}
