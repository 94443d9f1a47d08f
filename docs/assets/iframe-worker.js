// Browsers start no worker on a page that is opened from disk, and the search runs in one: there, run
// its script in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      document.body.append(this.frame);
      const inside = this.frame.contentWindow;
      this.ready = new Promise((resolve) => { inside.isReady = resolve; });
      this.receive = (event) => {
        if (event.source !== inside) return;
        const message = new MessageEvent("message", { data: event.data });
        this.dispatchEvent(message);
        if (this.onmessage) this.onmessage(message);
      };
      addEventListener("message", this.receive);
      inside.document.open();
      inside.document.write(
        "<script>postMessage = (data) => parent.postMessage(data, '*');" +
        "importScripts = (...urls) => Promise.all(urls.map((url) => new Promise((resolve) => {" +
        "const script = document.createElement('script'); script.src = url; script.onload = resolve;" +
        "document.head.append(script); })));</" + "script>" +
        `<script src="${url}"></` + "script><script>isReady();</" + "script>");
      inside.document.close();
    }
    postMessage(data) {
      this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })));
    }
    terminate() {
      removeEventListener("message", this.receive);
      this.frame.remove();
    }
  };
}
