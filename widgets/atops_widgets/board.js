// Several widgets in one: each has a part of the model. What the parts say at one time, here and in Python, is one message.
// `widgets` has their modules by the names of their files.
export default {
  render({model, el}) {
    const snapshots = model.get("snapshots") || [];
    const board = node("div", {class: "atops-board", "data-testid": "atops-board"});
    el.append(board);
    const hearers = [];
    const said = [];
    let hears = false;
    const flush = () => {
      if (!hears && said.length) model.send({parts: said.splice(0)});
    };
    const hear = ({parts}, buffers) => {
      let at = 0;
      hears = true;
      try {
        for (const [part, content, count] of parts) hearers[part]?.(content, buffers.slice(at, at += count));
      } finally {
        hears = false;
        flush();
      }
    };
    model.on("msg:custom", hear);
    const ends = model.get("parts").map((table, part) => {
      const place = node("div", {class: `atops-part${table.beside ? " atops-beside" : ""}`});
      board.append(place);
      const own = {
        get: (name) => (name === "table" ? table : name === "snapshot" ? snapshots[part] : model.get(name)),
        set: (name, value) => model.set(name, value),
        save_changes: () => model.save_changes(),
        send(content) {
          said.push([part, content]);
          flush();
        },
        on: (name, act) => (name === "msg:custom" ? hearers[part] = act : model.on(name, act)),
        off: (name, act) => (name === "msg:custom" ? delete hearers[part] : model.off(name, act)),
      };
      return widgets[table.script].render({model: own, el: place});
    });
    return () => {
      ends.forEach((end) => end());
      model.off("msg:custom", hear);
    };
  },
};
