// SPDX-License-Identifier: Apache-2.0
// Browsers start no worker for a page that lies on disk (file://), and the search runs in one. There, a hidden frame takes its place.
// Zensical's plugin `offline` would load such a script from the network if none had this file's name.
if (location.protocol === "file:")
  window.Worker = class {
    constructor(url) {
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      this.inside = this.frame.contentWindow;
      this.inside.document.open();
      this.inside.document.write("<body></body>");
      this.inside.document.close();
      this.inside.postMessage = (message) => {
        const data = structuredClone(message); // a worker shares no object with its page
        setTimeout(() => this.onmessage?.({ data }));
      };
      const script = this.inside.document.createElement("script");
      this.loaded = new Promise((done) => (script.onload = done));
      script.onerror = (event) => this.onerror?.(event);
      script.src = url;
      this.inside.document.body.append(script);
    }

    postMessage(message) {
      const data = structuredClone(message);
      this.loaded.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })));
    }

    terminate() {
      this.frame.remove();
    }
  };
